package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/quiet"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
)

// stored is the folder of the results that are committed.
const stored = "results"

func (j *job) do(ctx context.Context) error {
	if err := j.heed(ctx); err != nil {
		return err
	}
	var failed []error // one scenario must not cost the others of a long run
	for _, s := range j.scenarios {
		if err := j.measure(ctx, s); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.Name, err))
			fmt.Fprintln(j.out, "bench:", failed[len(failed)-1])
		}
		if ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
	if len(j.scenarios) == 0 {
		failed = append(failed, drawStored(j.results))
	}
	if j.results == stored {
		failed = append(failed, report.Pages("..", stored)) // README.md and docs
	}
	return errors.Join(failed...)
}

// drawStored draws the pictures of the stored results into a folder.
func drawStored(dir string) error {
	files, err := filepath.Glob(filepath.Join(stored, "*.json"))
	for _, file := range files {
		r, failed := report.Read(file)
		if failed == nil {
			_, failed = r.Draw(dir)
		}
		err = errors.Join(err, failed)
	}
	return err
}

func (j *job) measure(ctx context.Context, s scenario.Scenario) error {
	began := time.Now()
	software := []string{"github.com/redis/rueidis", "github.com/redis/go-redis/v9"}
	for _, r := range j.env.Rivals {
		software = append(software, r.Module)
	}
	result := &report.Result{Scenario: s.Name, Title: s.Title, Question: s.Question, Command: j.command,
		Smoke: j.env.Smoke, Began: began, Machine: j.machine, Software: report.GoVersions(software...)}
	env := j.env
	env.Progress = func(format string, a ...any) {
		fmt.Fprintf(j.out, "%s %4.0fs: %s\n", s.Name, time.Since(began).Seconds(), fmt.Sprintf(format, a...))
	}
	rest, begin := j.rest(ctx)
	failed := s.Measure(ctx, env, result)
	noise := quiet.Between(rest, begin, quiet.Read(j.watch.proc))
	result.Noise = &noise
	if why := result.Disturbed(); why != "" && !j.env.Smoke {
		env.Progress("BUSY, not to be quoted: %s", why)
	}
	if failed != nil {
		if len(result.Points) == 0 {
			return failed
		}
		result.Remark("Not everything could be measured: %s.", strings.ReplaceAll(failed.Error(), "\n", "; "))
	}
	result.Took = time.Since(began).Round(time.Second).String()
	files, err := result.Write(j.results)
	if err == nil {
		env.Progress("wrote %s", strings.Join(files, ", "))
	}
	for _, remark := range slices.Compact(result.Remarks) {
		env.Progress("%s", remark)
	}
	return errors.Join(failed, err)
}
