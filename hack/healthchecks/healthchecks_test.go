package healthchecks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	celext "cel.dev/cel-go/ext"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	config         = "../../config/"
	customizations = config + "argocd/resource_customizations/examprep.dev/"
)

// expectation is one test of config/flux/health_test.yaml: what Flux's expressions and plain kstatus make of a resource.
type expectation struct {
	InputPath string        `json:"inputPath"`
	Flux      status.Status `json:"flux"`
	Kstatus   status.Status `json:"kstatus"`
}

// argoTest is one test of a health_test.yaml, in the format of Argo CD's own.
type argoTest struct {
	HealthStatus struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	} `json:"healthStatus"`
	InputPath string `json:"inputPath"`
}

func kinds(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(customizations)
	if err != nil || len(entries) != 3 {
		t.Fatalf("kinds: %v, %v", entries, err)
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names
}

func load[T any](t *testing.T, path string) T {
	t.Helper()
	var value T
	text, err := os.ReadFile(path)
	noError(t, err)
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return value
}

func resource(t *testing.T, path string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	noError(t, err)
	raw, err := yaml.YAMLToJSON(text)
	noError(t, err)
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return object
}

func allTested(t *testing.T, tested []string) {
	t.Helper()
	recorded, err := filepath.Glob(customizations + "*/testdata/*.yaml")
	if err != nil || len(recorded) < 20 {
		t.Fatalf("recorded resources: %v, %v", recorded, err)
	}
	for i := range tested {
		tested[i] = filepath.Clean(tested[i])
	}
	for _, path := range recorded {
		if !slices.Contains(tested, path) {
			t.Errorf("%s is tested by nothing", path)
		}
	}
}

func TestArgoCDJudgesWhatTheOperatorSays(t *testing.T) {
	t.Parallel()
	var tested []string
	for _, kind := range kinds(t) {
		script, err := os.ReadFile(customizations + kind + "/health.lua")
		noError(t, err)
		for _, test := range load[struct{ Tests []argoTest }](t, customizations+kind+"/health_test.yaml").Tests {
			path := customizations + kind + "/" + test.InputPath
			tested = append(tested, path)
			got, message := health(t, string(script), resource(t, path))
			if got != test.HealthStatus.Status || message != test.HealthStatus.Message {
				t.Errorf("%s: %s %q, want %s %q", path, got, message, test.HealthStatus.Status, test.HealthStatus.Message)
			}
		}
	}
	allTested(t, tested)
}

// health runs a script as Argo CD does: no library but the base and tables, the resource in obj, the judgement returned.
func health(t *testing.T, script string, object *unstructured.Unstructured) (verdict, message string) {
	t.Helper()
	machine := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer machine.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		noError(t, machine.CallByParam(lua.P{Fn: machine.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	machine.SetGlobal("obj", value(machine, object.Object))
	if err := machine.DoString(script); err != nil {
		t.Fatalf("%s: %v", object.GetKind(), err)
	}
	table, ok := machine.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("%s: the script returns %s", object.GetKind(), machine.Get(-1).Type())
	}
	return table.RawGetString("status").String(), table.RawGetString("message").String()
}

// value turns JSON into Lua, as Argo CD does: every number is a float.
func value(machine *lua.LState, from any) lua.LValue {
	switch from := from.(type) {
	case map[string]any:
		table := machine.NewTable()
		for key, item := range from {
			table.RawSetString(key, value(machine, item))
		}
		return table
	case []any:
		table := machine.NewTable()
		for _, item := range from {
			table.Append(value(machine, item))
		}
		return table
	case string:
		return lua.LString(from)
	case bool:
		return lua.LBool(from)
	case int64:
		return lua.LNumber(from)
	case float64:
		return lua.LNumber(from)
	default:
		return lua.LNil
	}
}

func TestArgoCDsConfigMapHoldsTheScripts(t *testing.T) {
	t.Parallel()
	data := load[struct{ Data map[string]string }](t, config+"argocd/argocd-cm.yaml").Data
	if len(data) != 3 {
		t.Errorf("%d keys, want one for each kind", len(data))
	}
	for _, kind := range kinds(t) {
		script, err := os.ReadFile(customizations + kind + "/health.lua")
		noError(t, err)
		if data["resource.customizations.health.examprep.dev_"+kind] != string(script) {
			t.Errorf("argocd-cm.yaml has another script for %s than resource_customizations", kind)
		}
	}
}

// expressions are one of a Flux Kustomization's healthCheckExprs.
type expressions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	InProgress string `json:"inProgress"`
	Failed     string `json:"failed"`
	Current    string `json:"current"`
}

func TestFluxAndKstatusJudgeWhatTheOperatorSays(t *testing.T) {
	t.Parallel()
	of := map[string]expressions{}
	kustomization := load[struct {
		Spec struct {
			HealthCheckExprs []expressions `json:"healthCheckExprs"`
		} `json:"spec"`
	}](t, config+"flux/exams.yaml")
	for _, exprs := range kustomization.Spec.HealthCheckExprs {
		of[exprs.Kind] = exprs
	}
	var tested []string
	for _, test := range load[struct{ Tests []expectation }](t, config+"flux/health_test.yaml").Tests {
		path := config + "flux/" + test.InputPath
		tested = append(tested, path)
		object := resource(t, path)
		exprs, ok := of[object.GetKind()]
		if !ok || exprs.APIVersion != object.GetAPIVersion() {
			t.Fatalf("no expressions for %s %s", object.GetAPIVersion(), object.GetKind())
		}
		if got := exprs.evaluate(t, object); got != test.Flux {
			t.Errorf("%s: Flux says %s, want %s", path, got, test.Flux)
		}
		plain, err := status.Compute(object)
		if err != nil || plain.Status != test.Kstatus {
			t.Errorf("%s: kstatus says %v, %v, want %s", path, plain, err, test.Kstatus)
		}
	}
	allTested(t, tested)
}

// evaluate is Flux's RFC 0009: a generation that was not observed is in progress, then the expressions in this order.
func (e expressions) evaluate(t *testing.T, object *unstructured.Unstructured) status.Status {
	t.Helper()
	observed, found, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if err == nil && found && observed != object.GetGeneration() {
		return status.InProgressStatus
	}
	for _, rule := range []struct {
		expression string
		status     status.Status
	}{{e.InProgress, status.InProgressStatus}, {e.Failed, status.FailedStatus}, {e.Current, status.CurrentStatus}} {
		if holds(t, rule.expression, object) {
			return rule.status
		}
	}
	return status.InProgressStatus
}

func holds(t *testing.T, expression string, object *unstructured.Unstructured) bool {
	t.Helper()
	env, err := cel.NewEnv(celext.Strings())
	noError(t, err)
	ast, issues := env.Parse(strings.TrimSpace(expression)) // parsed and not checked, as Flux does
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(ast)
	noError(t, err)
	out, _, err := program.ContextEval(t.Context(), object.Object)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	yes, ok := out.Value().(bool)
	if !ok {
		t.Fatalf("%s is %v, no truth value", expression, out)
	}
	return yes
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
