package redissim

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// engine is the one interpreter of this process. A script runs from begin to end, as in Redis, so
// one is enough for all servers; its lock is never held while anybody sleeps.
var engine = newInterpreter()

type interpreter struct {
	mu     sync.Mutex
	state  *lua.LState
	server *Server // whose script runs
	raised failure // that ended it
	texts  map[string]*compiled
}

// compiled is a script that was seen before.
type compiled struct {
	sha  string
	body *lua.LFunction
}

func newInterpreter() *interpreter {
	e := &interpreter{state: lua.NewState(lua.Options{SkipOpenLibs: true, RegistrySize: 1024 * 8}),
		texts: make(map[string]*compiled)}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
		lua.MathLibName: lua.OpenMath,
	} {
		if err := e.state.CallByParam(lua.P{Fn: e.state.NewFunction(open), Protect: true},
			lua.LString(name)); err != nil {
			panic(err)
		}
	}
	if strings, ok := e.state.GetGlobal(lua.StringLibName).(*lua.LTable); ok {
		slow := strings.RawGetString("format").(*lua.LFunction).GFunction
		strings.RawSetString("format", e.state.NewFunction(quickly(slow)))
	}
	numbers := e.state.NewTable()
	numbers.RawSetString("pack", e.state.NewFunction(packs))
	numbers.RawSetString("unpack", e.state.NewFunction(unpacks))
	e.state.SetGlobal("struct", numbers)
	redis := e.state.NewTable()
	redis.RawSetString("call", e.state.NewFunction(func(l *lua.LState) int { return e.call(l, true) }))
	redis.RawSetString("pcall", e.state.NewFunction(func(l *lua.LState) int { return e.call(l, false) }))
	e.state.SetGlobal("redis", redis)
	return e
}

// call is redis.call, or redis.pcall if errors are values.
func (e *interpreter) call(l *lua.LState, strict bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		switch a := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = string(a)
		case lua.LNumber:
			args[i] = strconv.FormatFloat(float64(a), 'g', 17, 64)
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	reply := e.server.do(args)
	if f, failed := reply.(failure); failed && strict {
		e.raised = f
		l.RaiseError("%s", string(f))
	}
	l.Push(toLua(l, reply))
	return 1
}

func toLua(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case int64:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case status:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(r))
		return t
	case failure:
		t := l.NewTable()
		t.RawSetString("err", lua.LString(r))
		return t
	case []any:
		t := l.CreateTable(len(r), 0)
		for _, element := range r {
			t.Append(toLua(l, element))
		}
		return t
	}
	return lua.LFalse // nil
}

func fromLua(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LNumber:
		return int64(v)
	case lua.LString:
		return string(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
	case *lua.LTable:
		if f, ok := v.RawGetString("err").(lua.LString); ok {
			return failure(f)
		}
		if ok, is := v.RawGetString("ok").(lua.LString); is {
			return status(ok)
		}
		all := make([]any, 0, v.Len())
		for i := 1; ; i++ {
			element := v.RawGetInt(i)
			if element == lua.LNil {
				return all
			}
			all = append(all, fromLua(element))
		}
	}
	return nil
}

// compile returns the script of that text.
func (e *interpreter) compile(text string) (*compiled, error) {
	if c := e.texts[text]; c != nil {
		return c, nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "user_script")
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, "user_script")
	if err != nil {
		return nil, err
	}
	sum := sha1.Sum([]byte(text)) // the name Redis gives it, not a secret
	c := &compiled{sha: hex.EncodeToString(sum[:]), body: e.state.NewFunctionFromProto(proto)}
	e.texts[text] = c
	return c, nil
}

// eval runs a script: args are the number of keys, the keys, and the arguments.
func (s *Server) eval(text string, args []string) any {
	script, err := engine.compile(text)
	if err != nil {
		return failure("ERR Error compiling script: " + err.Error())
	}
	s.loaded[script.sha] = script
	return s.run(script, args)
}

func (s *Server) run(script *compiled, args []string) any {
	e := engine
	count, err := strconv.Atoi(args[0])
	if err != nil || count < 0 || count > len(args)-1 {
		return failure("ERR Number of keys can't be greater than number of args")
	}
	s.Scripts.Add(1)
	l := e.state
	list := func(name string, items []string) {
		t := l.CreateTable(len(items), 0)
		for _, item := range items {
			t.Append(lua.LString(item))
		}
		l.SetGlobal(name, t)
	}
	list("KEYS", args[1:1+count])
	list("ARGV", args[1+count:])
	before := e.server
	e.server = s
	defer func() { e.server = before }()
	e.raised = ""
	l.Push(script.body)
	if err := l.PCall(0, 1, nil); err != nil {
		l.SetTop(0)
		if e.raised != "" && e.raised == failure(s.refuses) {
			return e.raised // the code comes first, as it does in Redis
		}
		return failure("ERR Error running script: " + err.Error())
	}
	reply := fromLua(l.Get(-1))
	l.SetTop(0)
	return reply
}
