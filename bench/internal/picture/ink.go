package picture

import "strings"

// tone is a colour: one for a light ground and one for a dark ground.
type tone struct{ name, light, dark string }

// The tones are after Okabe and Ito, and Tol, whose colours also colour-blind readers can tell
// apart; each has a contrast of at least 3 to 1 with its ground.
var (
	orange = tone{"orange", "#d55e00", "#ff8f3f"}
	blue   = tone{"blue", "#0072b2", "#58a6ff"}
	green  = tone{"green", "#008a64", "#2ecc9b"}
	pink   = tone{"pink", "#b8578f", "#e79ac7"}
	gold   = tone{"gold", "#a87400", "#e6b422"}
	sky    = tone{"sky", "#2b8cc4", "#7cd3ff"}
	grey   = tone{"grey", "#6e6e6e", "#a8a8a8"}
	plain  = tone{"plain", "#1f2328", "#f0f6fc"}
	violet = tone{"violet", "#5b3fb5", "#b39dff"}
	wine   = tone{"wine", "#8b1538", "#ff4f79"}
	olive  = tone{"olive", "#74791a", "#c3c84b"}
	brown  = tone{"brown", "#7a4a1e", "#d2a679"}
	red    = tone{"red", "#c81e1e", "#ff6b6b"}
)

// Ink is how a subject is drawn: a colour that it has in every picture, a sign, and for variants of
// one subject a pattern.
type Ink struct {
	tone    tone
	sign    int // of signs
	variant int // 0, 1, 2 among those of its subject
}

// subjects have the same ink in every picture. A series is of the subject whose name it begins
// with, up to a comma: "shardlimit, 4 nodes" is shardlimit.
var subjects = map[string]Ink{
	"shardlimit":            {tone: orange},
	"httplimit":             {tone: orange},
	"envoylimit":            {tone: orange},
	"script":                {tone: blue, sign: 1},
	"EVALSHA":               {tone: plain, sign: 1},
	"gcra":                  {tone: wine, sign: 1},
	"increx":                {tone: olive, sign: 2},
	"redis_rate":            {tone: green, sign: 2},
	"rueidislimiter":        {tone: pink, sign: 3},
	"ulule":                 {tone: gold, sign: 0},
	"go-zero":               {tone: violet, sign: 3},
	"envoyproxy/ratelimit":  {tone: violet, sign: 1},
	"plain ZSET":            {tone: brown, sign: 1},
	"no limiter":            {tone: grey, sign: 3},
	"429 without a limiter": {tone: grey, sign: 2},

	"limit":              {tone: red},
	"the hog":            {tone: red},
	"the others":         {tone: blue},
	"in the last second": {tone: blue},
	"in 50 ms":           {tone: green},
	"wanted in 50 ms":    {tone: grey},
}

// spare are the tones of series that are no subject, in order.
var spare = []tone{blue, green, violet, gold, wine, brown, sky, olive, grey, pink}

// Inks are how the series of one picture are drawn, in their order.
func Inks(names []string) []Ink {
	inks, variants, strangers := make([]Ink, len(names)), map[string]int{}, 0
	for i, name := range names {
		subject, _, _ := strings.Cut(name, ",")
		ink, known := subjects[name]
		if !known {
			ink, known = subjects[subject]
		}
		if !known {
			ink = Ink{tone: spare[strangers%len(spare)], sign: strangers % len(signs)}
			strangers++
		} else {
			ink.variant = variants[ink.tone.name]
			variants[ink.tone.name]++
		}
		inks[i] = ink
	}
	return inks
}

// signs are a circle, a square, a triangle and a diamond, around the origin.
var signs = []string{
	"M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
	"M-3.6 -3.6H3.6V3.6H-3.6Z",
	"M0 -4.6L4.4 3.4H-4.4Z",
	"M0 -5L5 0L0 5L-5 0Z",
}

// dashes tell variants of one subject apart.
var dashes = []string{"", "7 3", "2 3", "9 3 2 3"}
