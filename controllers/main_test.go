package controllers

import (
	"testing"

	"examprep.dev/controllers/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }
