package content

import (
	"context"
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"examprep.dev/server/catalog"
)

// CheckResource returns the problems that the API server would report about an ExamContent that is not in a file yet, by their paths.
func CheckResource(ctx context.Context, resource any) ([]catalog.Problem, error) {
	schema, err := contentSchema()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(resource)
	if err != nil {
		return nil, fmt.Errorf("check a resource: %w", err)
	}
	object := make(map[string]any)
	if err := utiljson.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("check a resource: %w", err)
	}
	var problems []catalog.Problem
	for _, found := range schema.check(ctx, object) {
		problems = append(problems, catalog.Problem{Field: found.Field, Detail: describe(found)})
	}
	return problems, nil
}
