// health says what GitOps tools make of objects: Flux by kstatus, Argo CD by a Lua health script.
//
// It reads {"script": "<Lua>", "objects": [...]} and writes a list of {"kstatus", "kstatusMessage", "argocd", "argocdMessage"}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type request struct {
	Script  string            `json:"script"`
	Objects []json.RawMessage `json:"objects"`
}

type answer struct {
	Kstatus        string `json:"kstatus"`
	KstatusMessage string `json:"kstatusMessage"`
	Argocd         string `json:"argocd"`
	ArgocdMessage  string `json:"argocdMessage"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	answers := make([]answer, 0, len(asked.Objects))
	for _, raw := range asked.Objects {
		found, err := judge(asked.Script, raw)
		if err != nil {
			return err
		}
		answers = append(answers, found)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func judge(script string, raw json.RawMessage) (answer, error) {
	// Unstructured decodes whole numbers as int64, which kstatus asks for.
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		return answer{}, err
	}
	result, err := status.Compute(object)
	if err != nil {
		return answer{}, err
	}
	found := answer{Kstatus: string(result.Status), KstatusMessage: result.Message}
	if script != "" {
		found.Argocd, found.ArgocdMessage, err = argocd(script, object.Object)
	}
	return found, err
}

// argocd runs a script as Argo CD does (util/lua/lua.go): the object as obj, no libraries but base, package and table, one second.
func argocd(script string, object map[string]any) (string, string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		state.Push(state.NewFunction(library.open))
		state.Push(lua.LString(library.name))
		if err := state.PCall(1, 0, nil); err != nil {
			return "", "", err
		}
	}
	within, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(within)
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the script returned %s, not a table", state.Get(-1).Type())
	}
	return lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message")), nil
}

func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, each := range of {
			table.RawSetString(key, value(state, each))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, each := range of {
			table.Append(value(state, each))
		}
		return table
	case string:
		return lua.LString(of)
	case bool:
		return lua.LBool(of)
	case int64:
		return lua.LNumber(of)
	case float64:
		return lua.LNumber(of)
	default:
		return lua.LNil
	}
}
