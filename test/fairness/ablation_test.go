package fairness

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

var (
	ablate          = flag.String("ablate", "", "play without each mechanism of fairness that matches")
	playPopulations = flag.String("populations", "", "play the populations that match")
	playShards      = flag.String("populations.shards", "1,4,8", "on so many shards")
	playSeeds       = flag.Uint64("populations.seeds", 1, "so many times")
	playJSON        = flag.Bool("populations.json", false, "tell it to a program")
)

// cell is a population on so many shards.
type cell struct {
	Population string
	Shards     int
	Played     played
}

// TestPopulations plays populations with the real client and the real scripts. It does nothing
// unless it is told which ones.
func TestPopulations(t *testing.T) {
	if *playPopulations == "" || race.Enabled {
		return
	}
	for _, c := range chosen(t) {
		for seed := range *playSeeds {
			r := c.population.play(t, c.shards, seed)
			c.sum.add(&r, float64(*playSeeds))
		}
		if *playJSON {
			text, err := json.Marshal(cell{c.population.name, c.shards, c.sum})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("cell %s\n", text)
			continue
		}
		fmt.Printf("%-26s %d  %s\n", c.population.name, c.shards, c.sum)
	}
}

func (p *played) add(r *played, seeds float64) {
	p.Jain += r.Jain / seeds
	p.Least += r.Least / seeds
	p.Most += r.Most / seeds
	p.Use += r.Use / seeds
	p.Calls += r.Calls / seeds
}

func (p played) String() string {
	return fmt.Sprintf("J %.4f  least %.3f  most %.3f  use %.3f  calls %.2f", p.Jain, p.Least, p.Most, p.Use, p.Calls)
}

type choice struct {
	population *population
	shards     int
	sum        played
}

func chosen(t *testing.T) (all []choice) {
	t.Helper()
	match, err := regexp.Compile(*playPopulations)
	if err != nil {
		t.Fatalf("-populations: %v", err)
	}
	var shards []int
	for text := range strings.SplitSeq(*playShards, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("-populations.shards=%s: %q is no number of shards", *playShards, text)
		}
		shards = append(shards, n)
	}
	for _, p := range populations() {
		if match.MatchString(p.name) {
			for _, n := range shards {
				all = append(all, choice{population: p, shards: n})
			}
		}
	}
	if *playPopulations == "" || len(all) == 0 || *playSeeds == 0 {
		t.Fatalf("-populations=%s -populations.seeds=%d chooses nothing", *playPopulations, *playSeeds)
	}
	return all
}

// TestAblation plays populations without one mechanism of the rule after the other, on the Go twins
// of the scripts. Unless it is told which mechanisms, it only sees that the source still has them.
func TestAblation(t *testing.T) {
	all := []limittest.SwitchOff{onTwins}
	for _, m := range mechanisms() {
		all = append(all, m.SwitchOff)
	}
	if *ablate == "" {
		limittest.ChangedSources(t, all)
		return
	}
	chosen(t) // fails if there is nothing to play
	match, err := regexp.Compile(*ablate)
	if err != nil {
		t.Fatalf("-ablate: %v", err)
	}
	names := []string{""}
	for _, m := range mechanisms() {
		if match.MatchString(m.Name) {
			names = append(names, m.Name)
		}
	}
	if len(names) == 1 {
		t.Fatalf("-ablate=%s chooses no mechanism", *ablate)
	}
	twins, err := os.ReadFile("testdata/ablation/twins.go")
	if err != nil {
		t.Fatal(err)
	}
	binary := limittest.BuildChanged(t, all, map[string]string{"script/twins.go": string(twins)})
	for _, name := range names {
		playWithout(t, binary, name)
	}
}

// playWithout plays populations in another process and prints what it says.
func playWithout(t *testing.T, binary, name string) {
	cmd := exec.CommandContext(t.Context(), "nice", binary, "-test.run=^TestPopulations$",
		"-populations="+*playPopulations,
		"-populations.shards="+*playShards, fmt.Sprint("-populations.seeds=", *playSeeds), "-populations.json",
		"-test.timeout=0")
	cmd.Env = append(slices.Clone(os.Environ()), limittest.BreakVariable+"="+name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "cell "); ok {
			var c cell
			if err := json.Unmarshal([]byte(text), &c); err != nil {
				t.Fatal(err)
			}
			fmt.Printf("%-40s %-26s %d  %s\n", name, c.Population, c.Shards, c.Played)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
