package main

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"strings"
)

// eachToken scans Go.
func eachToken(text []byte, f func(pos token.Position, tok token.Token, lit string)) {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, func(token.Position, string) {}, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return
		}
		f(file.PositionFor(pos, false), tok, lit)
	}
}

func goSource(text []byte) *source {
	s := newSource(string(text), "//")
	eachToken(text, func(pos token.Position, tok token.Token, lit string) {
		i := pos.Line - 1
		switch {
		case tok == token.COMMENT && strings.HasPrefix(lit, "//"):
			s.comment(i, pos.Column-1)
		case tok == token.COMMENT || tok == token.STRING:
			for j := range strings.Count(lit, "\n") {
				s.fixed[i+j] = true
				s.fixed[i+j+1] = true
			}
		}
	})
	return s
}

func longGo(path string, text []byte) []finding { return goSource(text).long(path) }

// fixGo wraps code and comments, and leaves a file as it was if anything but white space and the
// places of comments would differ.
func fixGo(text []byte) []byte {
	out := []byte(goSource(text).unload(func(code string) bool {
		return strings.HasSuffix(code, "{") || strings.HasPrefix(code, "case ") || code == "default:"
	}))
	for range 20 { // each pass breaks a line once
		next := breakGo(out)
		if string(next) == string(out) {
			break
		}
		out = next
	}
	out = []byte(goSource(out).rewrap())
	formatted, err := format.Source(out)
	if err != nil || goTokens(formatted) != goTokens(text) {
		return text
	}
	return formatted
}

// goTokens is what the compiler sees. Semicolons are left out, because gofmt
// puts them or new lines, and so are seams of texts.
func goTokens(text []byte) string {
	var b strings.Builder
	eachToken(text, func(_ token.Position, tok token.Token, lit string) {
		if tok != token.COMMENT && tok != token.SEMICOLON {
			b.WriteString(tok.String() + lit + "\x00")
		}
	})
	return strings.ReplaceAll(b.String(), "\"\x00+\x00STRING\"", "") // a text in parts
}

// A gap is a place at which a line may be broken, and how deep it lies.
type gap struct{ at, depth int }

// breakGo breaks every line of code that is too long at its outermost gap, and of several such as
// far to the right as they fit.
func breakGo(text []byte) []byte {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.ParseComments)
	if err != nil {
		return text
	}
	f := set.File(file.Pos())
	gaps := map[int][]gap{}
	note := func(at token.Pos, depth int) {
		gaps[f.Line(at)] = append(gaps[f.Line(at)], gap{f.Offset(at), depth})
	}
	walkGaps(file, text, f, note)
	texts := textGaps(text)
	s := goSource(text)
	var out strings.Builder
	done := 0
	for i, line := range s.lines {
		if s.remark[i] || columns(line) <= codeColumns || strings.Contains(line, "//nolint") {
			continue // what is excused there must stay in that line
		}
		at := f.Offset(f.LineStart(i + 1))
		seam := "\n"
		best, ok := bestGap(gaps[i+1], line, at, codeColumns)
		if !ok {
			seam = "\" +\n\""
			best, ok = bestGap(texts[i+1], line, at, codeColumns-len(seam)+2)
		}
		if !ok {
			continue
		}
		out.Write(text[done:best.at])
		out.WriteString(seam)
		done = best.at
		for seam == "\n" && done < len(text) && text[done] == ' ' {
			done++
		}
	}
	out.Write(text[done:])
	formatted, err := format.Source([]byte(out.String()))
	if err != nil {
		return text
	}
	return formatted
}

// bestGap is the outermost place, and of several such the last one, before which the line has at
// most so many columns.
func bestGap(gaps []gap, line string, start, most int) (best gap, ok bool) {
	for _, g := range gaps {
		at := g.at - start
		rest := strings.TrimSpace(line[at:])
		if at <= len(indentOf(line)) || columns(line[:at]) > most || rest == "" || strings.HasPrefix(rest, "//") {
			continue
		}
		if !ok || g.depth < best.depth || g.depth == best.depth && g.at > best.at {
			best, ok = g, true
		}
	}
	return best, ok
}

// textGaps are the places behind spaces of long texts, by line.
func textGaps(text []byte) map[int][]gap {
	gaps := map[int][]gap{}
	last := token.Position{}
	var lit string
	eachToken(text, func(pos token.Position, tok token.Token, next string) {
		if lit != "" && tok != token.LBRACK {
			for i := 2; i < len(lit)-2; i++ {
				if lit[i-1] == ' ' && lit[i] != ' ' {
					gaps[last.Line] = append(gaps[last.Line], gap{last.Offset + i, 0})
				}
			}
		}
		last, lit = pos, ""
		if tok == token.STRING && next[0] == '"' {
			lit = next
		}
	})
	return gaps
}

// walkGaps notes the places behind commas of arguments, elements, parameters, results and cases,
// and behind the operators that join conditions and texts.
func walkGaps(file *ast.File, text []byte, f *token.File, note func(token.Pos, int)) {
	depth := 0
	between := func(list []ast.Expr, depth int) {
		for i := 0; i+1 < len(list); i++ {
			if end := list[i].End(); text[f.Offset(end)] == ',' {
				note(end+1, depth)
			}
		}
	}
	fields := func(list *ast.FieldList, depth int) {
		for i := 0; list != nil && i+1 < len(list.List); i++ {
			if end := list.List[i].End(); text[f.Offset(end)] == ',' {
				note(end+1, depth)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			depth--
			return true
		}
		depth++
		switch n := n.(type) {
		case *ast.CallExpr:
			between(n.Args, depth)
		case *ast.CompositeLit:
			between(n.Elts, depth)
		case *ast.ReturnStmt:
			between(n.Results, depth)
		case *ast.CaseClause:
			between(n.List, depth)
		case *ast.FuncType:
			fields(n.Params, depth)
			fields(n.Results, depth+1) // rather break the parameters
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR || n.Op == token.ADD {
				note(n.OpPos+token.Pos(len(n.Op.String())), depth)
			}
		}
		return true
	})
}
