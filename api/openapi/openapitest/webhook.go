package openapitest

import (
	"fmt"
	"net/http"
)

// CheckWebhook returns what is wrong with a delivery of the webhook of that name, by its body and its header parameters.
func (d *Document) CheckWebhook(name string, header http.Header, body []byte) error {
	operation := Location("").Child("webhooks", name, "post")
	described, found := d.find(operation)
	if !found {
		return fmt.Errorf("the webhook %s is not documented", name)
	}
	if err := d.checkParameters(operation, described, header); err != nil {
		return fmt.Errorf("the webhook %s: %w", name, err)
	}
	at, request, found := d.Resolve(operation.Child("requestBody"))
	if !found {
		return fmt.Errorf("the webhook %s has no body by its document", name)
	}
	mediaType := header.Get("Content-Type")
	if _, documented := member(request, "content")[mediaType]; !documented {
		return fmt.Errorf("the webhook %s: the media type %q is not documented", name, mediaType)
	}
	if err := d.checkJSON(at.Child("content", mediaType, "schema"), mediaType, body); err != nil {
		return fmt.Errorf("the webhook %s: %w", name, err)
	}
	return nil
}

func (d *Document) checkParameters(operation Location, described map[string]any, header http.Header) error {
	list, _ := described["parameters"].([]any)
	for i := range list {
		at, parameter, found := d.Resolve(operation.Child("parameters", itoa(i)))
		name, _ := parameter["name"].(string)
		if !found || parameter["in"] != "header" {
			continue
		}
		values := header.Values(name)
		if isRequired(parameter) && len(values) == 0 {
			return fmt.Errorf("the required header %s is missing", name)
		}
		for _, value := range values {
			if err := d.checkText(at.Child("schema"), value); err != nil {
				return fmt.Errorf("the header %s: %q: %w", name, value, err)
			}
		}
	}
	return nil
}

// Webhooks are the names of all webhooks.
func (d *Document) Webhooks() []string {
	return sortedKeys(member(d.root, "webhooks"))
}
