package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Object is a rendered object as the API server would read it.
type Object map[string]any

// Release says what a chart is rendered for.
type Release struct {
	Name, Namespace string
	// Values are laid over the chart's own.
	Values map[string]any
}

// Render returns the objects of the chart in folder, in the order of their files. It fails as helm does: when values do
// not fit their schema, or a template refuses them.
func Render(folder string, release Release) ([]Object, error) {
	loaded, err := loader.Load(folder)
	if err != nil {
		return nil, fmt.Errorf("load chart: %w", err)
	}
	values, err := util.ToRenderValues(loaded, release.Values, common.ReleaseOptions{
		Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true,
	}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, values)
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		found, err := Decode([]byte(files[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// Decode reads a stream of YAML documents; empty ones are left out.
func Decode(text []byte) ([]Object, error) {
	var objects []Object
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var object Object
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object) > 0 {
			objects = append(objects, object)
		}
	}
}
