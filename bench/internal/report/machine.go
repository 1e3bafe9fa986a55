package report

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine is where a benchmark ran.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	System string `json:"system"`
	Load   string `json:"load"` // load averages when the program began; idle is about 0
}

// ThisMachine describes the machine; what cannot be found out is "unknown".
func ThisMachine() Machine {
	return Machine{
		CPU:    procField("/proc/cpuinfo", "model name"),
		Cores:  runtime.NumCPU(),
		Memory: memory(procField("/proc/meminfo", "MemTotal")),
		System: runtime.GOOS + "/" + runtime.GOARCH + ", kernel " + firstLine("/proc/sys/kernel/osrelease"),
		Load:   LoadAverages(),
	}
}

// memory turns kB into GiB.
func memory(total string) string {
	var kB float64
	if _, err := fmt.Sscanf(total, "%f kB", &kB); err != nil {
		return total
	}
	return fmt.Sprintf("%.1f GiB", kB/(1<<20))
}

// LoadAverages are those over 1, 5 and 15 minutes now, "unknown" if the system does not tell.
func LoadAverages() string { return loadAverages(firstLine("/proc/loadavg")) }

// loadAverages keeps those over 1, 5 and 15 minutes of /proc/loadavg.
func loadAverages(line string) string {
	fields := strings.Fields(line)
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func procField(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// GoVersions returns the version of Go and of each module that is compiled into
// this program and asked for.
func GoVersions(modules ...string) []Pair {
	pairs := []Pair{{"Go", strings.TrimPrefix(runtime.Version(), "go")}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return pairs
	}
	for _, module := range modules {
		for _, dep := range info.Deps {
			if dep.Path == module {
				pairs = append(pairs, Pair{module, dep.Version})
			}
		}
	}
	return pairs
}
