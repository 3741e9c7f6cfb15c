package controllers

import (
	"os"
	"testing"

	"examprep.dev/controllers/clustertest"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m)) }
