package script

import (
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// luaScope finds out what every name in a Lua script means: where the local is declared, if it is
// one, and whether it is read or assigned to.
type luaScope struct {
	block    *luaBlock
	function *luaFunction
	uses     []luaUse
	// Of the function that has the most.
	mostLocals, mostUpvalues int
}

// luaUse is a name in a script.
type luaUse struct {
	name   string
	line   int
	local  *luaLocal // nil: it is global
	writes bool
}

type luaLocal struct {
	name     string
	line     int
	function *luaFunction
}

type luaBlock struct {
	outer  *luaBlock
	locals map[string]*luaLocal
	count  int
}

type luaFunction struct {
	outer    *luaFunction
	active   int
	upvalues map[*luaLocal]bool
}

// readLua resolves all names of a script.
func readLua(text, name string) (*luaScope, error) {
	chunk, err := parse.Parse(strings.NewReader(text), name)
	if err != nil {
		return nil, err
	}
	s := &luaScope{function: &luaFunction{upvalues: map[*luaLocal]bool{}}}
	s.inBlock(func() { s.statements(chunk) })
	return s, nil
}

func (s *luaScope) inBlock(walk func()) {
	s.block = &luaBlock{outer: s.block, locals: map[string]*luaLocal{}}
	walk()
	s.function.active -= s.block.count
	s.block = s.block.outer
}

func (s *luaScope) declare(line int, names ...string) {
	for _, name := range names {
		s.block.locals[name] = &luaLocal{name: name, line: line, function: s.function}
	}
	s.reserve(len(names))
}

// reserve counts locals; those of loops include some without a name.
func (s *luaScope) reserve(n int) {
	s.block.count += n
	s.function.active += n
	s.mostLocals = max(s.mostLocals, s.function.active)
}

func (s *luaScope) use(name string, line int, writes bool) {
	use := luaUse{name: name, line: line, writes: writes}
	for b := s.block; b != nil && use.local == nil; b = b.outer {
		use.local = b.locals[name]
	}
	if use.local != nil {
		for f := s.function; f != use.local.function; f = f.outer {
			f.upvalues[use.local] = true
			s.mostUpvalues = max(s.mostUpvalues, len(f.upvalues))
		}
	}
	s.uses = append(s.uses, use)
}

func (s *luaScope) statements(list []ast.Stmt) {
	for _, statement := range list {
		s.statement(statement)
	}
}

func (s *luaScope) nested(list []ast.Stmt) { s.inBlock(func() { s.statements(list) }) }

func (s *luaScope) statement(statement ast.Stmt) {
	switch n := statement.(type) {
	case *ast.AssignStmt:
		s.expressions(n.Rhs)
		for _, left := range n.Lhs {
			s.assign(left)
		}
	case *ast.LocalAssignStmt:
		if _, function := first(n.Exprs).(*ast.FunctionExpr); function && len(n.Names) == 1 {
			s.declare(n.Line(), n.Names...) // it can call itself
			s.expressions(n.Exprs)
			return
		}
		s.expressions(n.Exprs)
		s.declare(n.Line(), n.Names...)
	case *ast.FuncCallStmt:
		s.expression(n.Expr)
	case *ast.DoBlockStmt:
		s.nested(n.Stmts)
	case *ast.WhileStmt:
		s.expression(n.Condition)
		s.nested(n.Stmts)
	case *ast.RepeatStmt:
		s.inBlock(func() { s.statements(n.Stmts); s.expression(n.Condition) })
	case *ast.IfStmt:
		s.expression(n.Condition)
		s.nested(n.Then)
		s.nested(n.Else)
	case *ast.NumberForStmt:
		s.expressions([]ast.Expr{n.Init, n.Limit, n.Step})
		s.inBlock(func() { s.reserve(3); s.declare(n.Line(), n.Name); s.statements(n.Stmts) })
	case *ast.GenericForStmt:
		s.expressions(n.Exprs)
		s.inBlock(func() { s.reserve(3); s.declare(n.Line(), n.Names...); s.statements(n.Stmts) })
	case *ast.FuncDefStmt:
		s.assign(n.Name.Func)
		s.expression(n.Func)
	case *ast.ReturnStmt:
		s.expressions(n.Exprs)
	case *ast.BreakStmt:
	default:
		panic(fmt.Sprintf("Lua that this test does not know: %T", n))
	}
}

func first(list []ast.Expr) ast.Expr {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func (s *luaScope) assign(left ast.Expr) {
	if name, simple := left.(*ast.IdentExpr); simple {
		s.use(name.Value, name.Line(), true)
		return
	}
	s.expression(left)
}

func (s *luaScope) expressions(list []ast.Expr) {
	for _, expression := range list {
		if expression != nil {
			s.expression(expression)
		}
	}
}

func (s *luaScope) expression(expression ast.Expr) {
	switch n := expression.(type) {
	case *ast.IdentExpr:
		s.use(n.Value, n.Line(), false)
	case *ast.AttrGetExpr:
		s.expressions([]ast.Expr{n.Object, n.Key})
	case *ast.TableExpr:
		for _, field := range n.Fields {
			s.expressions([]ast.Expr{field.Key, field.Value})
		}
	case *ast.FuncCallExpr:
		s.expressions(append([]ast.Expr{n.Func, n.Receiver}, n.Args...))
	case *ast.LogicalOpExpr:
		s.expressions([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.RelationalOpExpr:
		s.expressions([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.StringConcatOpExpr:
		s.expressions([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.ArithmeticOpExpr:
		s.expressions([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.UnaryMinusOpExpr:
		s.expression(n.Expr)
	case *ast.UnaryNotOpExpr:
		s.expression(n.Expr)
	case *ast.UnaryLenOpExpr:
		s.expression(n.Expr)
	case *ast.FunctionExpr:
		s.function = &luaFunction{outer: s.function, upvalues: map[*luaLocal]bool{}}
		s.inBlock(func() {
			s.declare(n.Line(), n.ParList.Names...)
			s.statements(n.Stmts)
		})
		s.function = s.function.outer
	case *ast.NumberExpr, *ast.StringExpr, *ast.TrueExpr, *ast.FalseExpr, *ast.NilExpr, *ast.Comma3Expr:
	default:
		panic(fmt.Sprintf("Lua that this test does not know: %T", n))
	}
}
