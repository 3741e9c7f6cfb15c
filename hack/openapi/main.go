// Command openapi writes the complete HTTP contract as JSON, for tools that read a file.
package main

import (
	"fmt"
	"os"

	"examprep.dev/api/openapi"
)

func main() {
	document, err := openapi.JSON()
	if err == nil {
		_, err = os.Stdout.Write(document)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}
