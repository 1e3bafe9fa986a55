package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"gopkg.in/yaml.v3"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// project is compose.yaml as Docker Compose itself reads it, checked against its schema.
func project(t *testing.T) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(".")
	limittest.Must(t, err)
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: dir,
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: content(t, "compose.yaml")}}})
	limittest.Must(t, err)
	return p
}

// What compose.yaml mounts and builds is there, nothing of it can be written, and only this machine
// reaches its ports.
func TestComposeNamesWhatExists(t *testing.T) {
	p := project(t)
	mounts := 0
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			mounts++
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s mounts %s: %v, read only: %v", name, v.Source, err, v.ReadOnly)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s opens port %s to others", name, port.Published)
			}
		}
		if s.Build != nil {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if !regexp.MustCompile(`:v?\d`).MatchString(s.Image) {
			t.Errorf("%s: %s has no version", name, s.Image)
		}
	}
	if mounts < 5 {
		t.Errorf("%d mounts", mounts)
	}
}

// Files that name each other agree: where Prometheus scrapes and Grafana asks there are services,
// and the nodes of serve.yaml are services that keep no more than what they hold.
func TestTheFilesAgree(t *testing.T) {
	p := project(t)
	var scraped struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	var asked struct{ Datasources []struct{ URL string } }
	var settings struct{ Redis []string }
	for file, into := range map[string]any{"prometheus/prometheus.yml": &scraped, "serve.yaml": &settings,
		"grafana/provisioning/datasources/prometheus.yaml": &asked} {
		limittest.Must(t, yaml.Unmarshal(content(t, file), into))
	}
	addresses := []string{strings.TrimPrefix(asked.Datasources[0].URL, "http://")}
	for _, c := range scraped.ScrapeConfigs {
		addresses = append(addresses, c.StaticConfigs[0].Targets...)
	}
	for _, node := range settings.Redis {
		_, address, _ := strings.Cut(node, "=")
		addresses = append(addresses, address)
		host, _, _ := strings.Cut(address, ":")
		if s, ok := p.Services[host]; ok && !slices.Contains(s.Command, "noeviction") {
			t.Errorf("%s may throw permits away: %q", host, s.Command)
		}
	}
	for _, address := range addresses {
		host, _, _ := strings.Cut(address, ":")
		if _, ok := p.Services[host]; !ok {
			t.Errorf("there is no service %s", host)
		}
	}
}

// Image and unit start the tool with arguments that it takes.
func TestTheToolStartsAsImageAndUnitSay(t *testing.T) {
	t.Parallel()
	image, unit := string(content(t, "Dockerfile")), string(content(t, "shardlimit.service"))
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)
	words := regexp.MustCompile(`(?m)^(?:ENTRYPOINT|CMD) \[(.*)\]$`).FindAllStringSubmatch(image, -1)
	if start == nil || len(words) != 2 {
		t.Fatalf("%q, %q", start, words)
	}
	said := strings.NewReplacer(`"`, "", ",", "").Replace(words[0][1] + " " + words[1][1])
	if said != start[1] {
		t.Errorf("the image runs %q, the unit %q", said, start[1])
	}
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(image) {
		t.Error("the image runs as root")
	}
	args := strings.Fields(strings.Replace(start[1], "/etc/shardlimit/", "", 1))[1:]
	started(t, exec.Command(tool, append(args, "--embedded", "--listen", "127.0.0.1:0")...),
		"limits declared: 2; serving HTTP on ")
}

// systemd kills no call that --grace still waits for, and shows the service the secrets that only
// root may read.
func TestTheUnitWaitsAndHandsSecretsOver(t *testing.T) {
	unit := string(content(t, "shardlimit.service"))
	text, err := exec.Command(tool, "serve", "--help").CombinedOutput()
	grace := regexp.MustCompile(`--grace TIME\s[^(]*\(default: (\w+)\)`).FindSubmatch(text)
	wait := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(unit)
	if err != nil || grace == nil || wait == nil {
		t.Fatalf("%v, %q, %q of %s", err, grace, wait, text)
	}
	most, err := time.ParseDuration(string(grace[1]))
	limittest.Must(t, err)
	if least, err := time.ParseDuration(wait[1] + "s"); err != nil || least <= most {
		t.Errorf("systemd waits %s, and calls may take %s", least, most)
	}
	for _, name := range []string{"token", "tls.crt", "tls.key"} {
		if !strings.Contains(unit, "\n#LoadCredential="+name+":/etc/shardlimit/"+name+"\n") {
			t.Errorf("the unit does not say how the service gets %s", name)
		}
	}
}

// systemd finds nothing to say about the unit, and that it leaves little open. Where there is no
// systemd, it is not asked.
func TestSystemdReadsTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd-analyze")
		return
	}
	file := filepath.Join(t.TempDir(), "shardlimit.service")
	unit := strings.NewReplacer("/usr/local/bin/shardlimit", "/bin/true", "#LoadCredential", "LoadCredential").
		Replace(string(content(t, "shardlimit.service")))
	limittest.Must(t, os.WriteFile(file, []byte(unit), 0o600))
	for _, args := range [][]string{{"verify", file}, {"security", "--offline=yes", "--threshold=20", file}} {
		if text, err := exec.Command(analyze, args...).CombinedOutput(); err != nil ||
			args[0] == "verify" && len(text) > 0 {
			t.Errorf("systemd-analyze %v: %v\n%s", args, err, text)
		}
	}
}
