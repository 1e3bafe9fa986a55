package script

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
)

// A transcript in testdata/fairness tells who asks one shard for how much and when, and what each
// must get. One statement a line; empty lines and those that begin with # say nothing. Instants and
// windows are Go durations from the start; rates are in permits.
//
//	title A hog takes nothing from those who want less
//	limit 1000 per 1s               permits and window
//	play on the twin only           not on a real Redis as well
//	hog weight 1                    a participant; all of them come before the first demand
//	large weight 0.5 size 20        each of its calls is for 20 permits; else for one
//	inventor weight 1 new name      it has another name with every call
//	pusher weight 1 in haste        it does not heed the hints when to come back
//	0s hog asks 5000/s              what it wants from now on
//	4s hog asks 0/s
//	2s-4s hog gets 700/s ±3%        granted per second in that period; without a tolerance, exactly
//	2s-4s hog gets at least 650/s
//	2s-4s hog gets at most 750/s
//	2s-4s all get 1000/s ±2%        everybody together
type transcript struct {
	title    string
	permits  int64
	window   time.Duration
	twinOnly bool
	people   []person
	demands  []demand
	wants    []expectation
}

// person is a participant.
type person struct {
	name    string
	weight  int64 // thousandths
	size    int64 // permits of a call
	newName bool
	haste   bool
}

// demand is what a participant asks for from an instant on.
type demand struct {
	from time.Duration
	who  int
	rate float64 // permits per second
}

// expectation is what must come out in a period.
type expectation struct {
	line        int
	text        string
	from, to    time.Duration
	who         int     // everybody: -1
	least, most float64 // permits per second
}

// parseTranscript reads a transcript; errors begin with the number of the line.
func parseTranscript(text string) (*transcript, error) {
	s := &transcript{}
	for i, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := s.statement(i+1, words); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, strings.TrimSpace(line), err)
		}
	}
	switch {
	case s.title == "":
		return nil, fmt.Errorf("there is no title")
	case s.permits == 0:
		return nil, fmt.Errorf("there is no limit")
	case len(s.demands) == 0 || len(s.wants) == 0:
		return nil, fmt.Errorf("there must be a demand and an expectation")
	}
	return s, nil
}

func (s *transcript) statement(number int, words []string) error {
	verb := ""
	if len(words) > 2 {
		verb = words[2]
	}
	switch {
	case words[0] == "title":
		s.title = strings.Join(words[1:], " ")
		return nil
	case words[0] == "limit":
		return s.limit(words[1:])
	case strings.Join(words, " ") == "play on the twin only":
		s.twinOnly = true
		return nil
	case verb == "asks":
		return s.asks(words)
	case verb == "gets" || verb == "get" && words[1] == "all":
		return s.gets(number, words)
	case len(words) > 1 && words[1] == "weight":
		return s.person(words[0], words[1:])
	}
	return fmt.Errorf(`want "title …", "limit …", "NAME weight …", "INSTANT NAME asks …" or "FROM-TO NAME gets …"`)
}

func (s *transcript) limit(words []string) (err error) {
	if len(words) != 3 || words[1] != "per" {
		return fmt.Errorf(`want "limit PERMITS per WINDOW"`)
	}
	if s.permits, err = strconv.ParseInt(words[0], 10, 64); err != nil || s.permits < 1 {
		return fmt.Errorf("%q is not a number of permits", words[0])
	}
	if s.window, err = time.ParseDuration(words[2]); err != nil || s.window < MinWindow {
		return fmt.Errorf("%q is not a window", words[2])
	}
	return nil
}

func (s *transcript) person(name string, words []string) error {
	p := person{name: name, size: 1}
	if name == "all" || s.find(name) >= 0 {
		return fmt.Errorf("the name %q is taken", name)
	}
	if len(s.demands) > 0 {
		return fmt.Errorf("participants come before the first demand")
	}
	for ; len(words) > 1; words = words[2:] {
		value, err := strconv.ParseFloat(words[1], 64)
		switch {
		case words[0] == "new" && words[1] == "name":
			p.newName = true
		case words[0] == "in" && words[1] == "haste":
			p.haste = true
		case words[0] == "weight" && err == nil && value >= 0.001 && value <= fairness.MaxWeight/1000:
			p.weight = int64(math.Round(value * 1000))
		case words[0] == "size" && err == nil && value >= 1 && value == math.Trunc(value):
			p.size = int64(value)
		default:
			return fmt.Errorf(`%q: want "weight" and a number from 0.001 to 1000, `+
				`"size" and a number of permits, "new name" or "in haste"`, words[0]+" "+words[1])
		}
	}
	if len(words) > 0 {
		return fmt.Errorf("nothing follows %q", words[0])
	}
	s.people = append(s.people, p)
	return nil
}

func (s *transcript) find(name string) int {
	return slices.IndexFunc(s.people, func(p person) bool { return p.name == name })
}

func (s *transcript) asks(words []string) (err error) {
	d := demand{who: s.find(words[1])}
	if len(words) != 4 {
		return fmt.Errorf(`want "INSTANT NAME asks PERMITS/s"`)
	}
	if d.from, err = instant(words[0]); err != nil {
		return err
	}
	if d.who < 0 {
		return fmt.Errorf("%q is no participant", words[1])
	}
	if d.rate, err = rate(words[3]); err != nil {
		return err
	}
	if last := len(s.demands) - 1; last >= 0 && s.demands[last].from > d.from {
		return fmt.Errorf("demands come in the order of time")
	}
	s.demands = append(s.demands, d)
	return nil
}

func (s *transcript) gets(number int, words []string) (err error) {
	e := expectation{line: number, text: strings.Join(words, " "), who: s.find(words[1])}
	from, to, _ := strings.Cut(words[0], "-")
	if e.from, err = instant(from); err != nil {
		return err
	}
	if e.to, err = instant(to); err != nil {
		return err
	}
	if e.to <= e.from {
		return fmt.Errorf("the period %q is empty", words[0])
	}
	if e.who < 0 && words[1] != "all" {
		return fmt.Errorf("%q is no participant", words[1])
	}
	bound, words := "", words[3:]
	if len(words) == 3 && words[0] == "at" {
		bound, words = words[1], words[2:]
	}
	if len(words) < 1 || len(words) > 2 || bound != "" && bound != "least" && bound != "most" {
		return fmt.Errorf(`want "gets PERMITS/s ±PERCENT%%", "gets at least PERMITS/s" or "gets at most PERMITS/s"`)
	}
	r, err := rate(words[0])
	if err != nil {
		return err
	}
	slack := 0.0
	if len(words) == 2 {
		percent, plain := strings.CutSuffix(strings.TrimPrefix(words[1], "±"), "%")
		if slack, err = strconv.ParseFloat(percent, 64); err != nil || !plain || !(slack >= 0 && slack <= 100) ||
			percent+"%" == words[1] {
			return fmt.Errorf("%q is not a tolerance such as ±3%%", words[1])
		}
	}
	e.least, e.most = r*(1-slack/100), r*(1+slack/100)
	switch bound {
	case "least":
		e.most = math.Inf(1)
	case "most":
		e.least = 0
	}
	s.wants = append(s.wants, e)
	return nil
}

func instant(word string) (time.Duration, error) {
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not an instant such as 1.5s", word)
	}
	return d, nil
}

func rate(word string) (float64, error) {
	digits, perSecond := strings.CutSuffix(word, "/s")
	r, err := strconv.ParseFloat(digits, 64)
	if err != nil || !perSecond || !(r >= 0 && r <= 1e9) {
		return 0, fmt.Errorf("%q is not a rate such as 200/s", word)
	}
	return r, nil
}

func TestTranscriptErrors(t *testing.T) {
	const head = "title T\nlimit 10 per 1s\nann weight 1\n0s ann asks 5/s\n"
	for line, want := range map[string]string{
		"ann wait 1":                    `want "title …"`,
		"limit 10 every 1s":             `want "limit PERMITS per WINDOW"`,
		"limit ten per 1s":              `"ten" is not a number of permits`,
		"limit 10 per second":           `"second" is not a window`,
		"ben weight 1":                  "before the first demand",
		"ann weight 1":                  `the name "ann" is taken`,
		"1s ben asks 5/s":               `"ben" is no participant`,
		"soon ann asks 5/s":             `"soon" is not an instant`,
		"1s ann asks 5":                 `"5" is not a rate`,
		"1s ann asks NaN/s":             `"NaN/s" is not a rate`,
		"1s ann asks 5/s twice":         `want "INSTANT NAME asks`,
		"1s ann gets 5/s":               `"" is not an instant`,
		"2s-1s ann gets 5/s":            "is empty",
		"1s-2s ben gets 5/s":            `"ben" is no participant`,
		"1s-2s ann gets about 5/s":      `"about" is not a rate`,
		"1s-2s ann gets 5/s ±3":         "is not a tolerance",
		"1s-2s ann gets 5/s 3%":         "is not a tolerance",
		"1s-2s ann gets at all 5/s":     `want "gets PERMITS/s`,
		"1s-2s ann gets at least 5":     `"5" is not a rate`,
		"1s-2s ann gets 5/s ±3% always": `want "gets PERMITS/s`,
	} {
		_, err := parseTranscript(head + line)
		if err == nil || !strings.HasPrefix(err.Error(), "line 5: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
	for line, want := range map[string]string{
		"ben weight 0":           "from 0.001 to 1000",
		"ben weight 1 size 0.5":  "a number of permits",
		"ben weight 1 new":       `nothing follows "new"`,
		"all weight 1":           `the name "all" is taken`,
		"":                       "there is no limit",
		"limit 10 per 1s\n# end": "a demand and an expectation",
	} {
		if _, err := parseTranscript("title T\n" + line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", line, err)
		}
	}
	if _, err := parseTranscript(head + "1s ann asks 5/s\n0s ann asks 5/s"); err == nil ||
		!strings.Contains(err.Error(), "line 6") {
		t.Error(err)
	}
}
