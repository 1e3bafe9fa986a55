package main

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

// A lang is how one kind of file is read.
type lang struct {
	kind string
	long func(path string, text []byte) []finding // its lines that are too long
	fix  func(text []byte) []byte                 // the same, wrapped
}

var languages = map[string]*lang{
	".md":  {"md", longMarkdown, fixMarkdown},
	".go":  {"go", longGo, fixGo},
	".lua": {"lua", longLua, fixLua},
	".sh":  {"sh", longShell, fixShell},
}

// language is nil for a file that is not looked at.
func language(path string, text []byte) *lang {
	if l := languages[filepath.Ext(path)]; l != nil {
		return l
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if bytes.HasPrefix(first, []byte("#!")) && bytes.HasSuffix(first, []byte("sh")) {
		return languages[".sh"]
	}
	return nil
}

// files are all below root that a person writes. Folders of golden files and what git keeps for
// itself are left out.
func files(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "testdata", "vendor", "node_modules":
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && (languages[filepath.Ext(path)] != nil || filepath.Ext(path) == "") {
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

var generatedLine = regexp.MustCompile(`(?m)^(//|--|#|<!--) Code generated .* DO NOT EDIT\.`)

// generated tells whether the head of a file says that a program wrote it.
func generated(text []byte) bool {
	return generatedLine.Match(text[:min(len(text), 1000)])
}

// columns is how wide a line is on a screen.
func columns(line string) (n int) {
	for _, r := range line {
		if r == '\t' {
			n += tabColumns - n%tabColumns
		} else {
			n++
		}
	}
	return n
}

func indentOf(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
