# What a developer types. Everything that these need and the machine lacks installs itself, pinned: Go programs from the
# modules in hack/, servers from the machine's packages.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The same flags everywhere, hack/kubernetes included: each package is compiled once for all.
GOBUILD := CGO_ENABLED=0 go build -trimpath
MODULES := . hack/alerts hack/bench/fiber hack/chart hack/chart/score hack/codegen hack/healthchecks hack/image hack/kubernetes hack/lint

# The image that make image writes: its version (from git unless given) and platforms, such as linux/amd64,linux/arm64.
VERSION ?=
PLATFORMS ?= linux/amd64

# Packages to test, and flags for go test: make test PKG=./server/gate/... TESTFLAGS='-race -run Tier'
PKG ?= ./...
TESTFLAGS ?= -race -timeout 30m
# How many random histories of attempts make soak plays.
HISTORIES ?= 100000
# How many webhook events make soak records while everything that can fail does.
EVENTS ?= 100000
# How many keys make soak revokes while they are used and Redis fails.
REVOCATIONS ?= 1000
# How long make soak edits 200 ExamContents while operator, kube-apiserver, etcd and PostgreSQL are killed.
CHAOS ?= 10m
# How long each fuzz target runs.
FUZZTIME ?= 20s
E2EFLAGS ?=
BENCHFLAGS ?=

# A tool of one of the modules, built on first use and kept in Go's build cache.
tool = $$(CGO_ENABLED=0 GOFLAGS=-mod=readonly go -C $(CURDIR)/hack/$(1) tool -n $(2))

##@ Run

.PHONY: dev
dev: ## Bring everything up on this machine, until Ctrl-C or make dev-down
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	@exec .dev/bin/dev up

.PHONY: dev-down
dev-down: ## Stop what make dev started
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	@exec .dev/bin/dev down

.PHONY: build
build: ## Build bin/examprep
	$(GOBUILD) -ldflags "-s -w" -o bin/examprep .

.PHONY: image
image: ## Build the image without a container engine: dist/examprep.tar and its list of contents (VERSION, PLATFORMS)
	@mkdir -p .dev/bin
	@cd hack/image && $(GOBUILD) -buildvcs=false -o $(CURDIR)/.dev/bin/image .
	@.dev/bin/image -o dist/examprep.tar -platform $(PLATFORMS) $(if $(VERSION),-version $(VERSION))

##@ Check

.PHONY: test
test: ## Test against real servers that are brought up and taken down (PKG, TESTFLAGS)
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	go -C hack/kubernetes test ./...
	go -C hack/healthchecks test -count 1 ./... # reads files of config, which the cache does not see
	go -C hack/lint test ./...
	@.dev/bin/dev test go test $(TESTFLAGS) $(PKG)

.PHONY: chart
chart: ## Check the chart and its image's build: both Helms, unit tests, the cluster's schemas, alerts, config/ equal to it
	go -C hack/image test ./...
	GOFLAGS="-mod=readonly -trimpath" CGO_ENABLED=0 go -C hack/alerts test -count 1 -timeout 30m .
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	@GOFLAGS="-mod=readonly -trimpath" CGO_ENABLED=0 .dev/bin/dev test go -C hack/chart test -count 1 -timeout 30m . # upgrades on a real API server

.PHONY: alerts
alerts: ## Make those of the chart's alerts fire that need no cluster: cause, in real processes on real stores, what each is about
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	@$(GOBUILD) -buildvcs=false -o .dev/bin/examprep .
	@EXAMPREP_BINARY=$(CURDIR)/.dev/bin/examprep GOFLAGS="-mod=readonly -trimpath" CGO_ENABLED=0 .dev/bin/dev test \
		go -C hack/alerts test -count 1 -timeout 30m -v ./firing

.PHONY: lint
lint: ## Lint with every linter that .golangci.yaml does not give a reason to switch off, the layout of packages, and the HTTP contract
	go -C hack/lint run ./layout -root $(CURDIR)
	go -C hack/lint run ./prose -root $(CURDIR)
	$(call tool,lint,golangci-lint) run ./...
	cd hack/kubernetes && $(call tool,lint,golangci-lint) run ./...
	cd hack/healthchecks && $(call tool,lint,golangci-lint) run ./...
	cd hack/alerts && GOFLAGS="-mod=readonly -trimpath" CGO_ENABLED=0 $(call tool,lint,golangci-lint) run ./...
	cd hack/bench/fiber && $(call tool,lint,golangci-lint) run ./...
	cd hack/chart && $(call tool,lint,golangci-lint) run ./...
	cd hack/image && $(call tool,lint,golangci-lint) run ./...
	cd hack/lint && $(call tool,lint,golangci-lint) run ./...
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	.dev/bin/dev npm redocly lint --extends=recommended-strict api/openapi/openapi.yaml

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities that the code reaches (needs vuln.go.dev)
	$(call tool,lint,govulncheck) ./...

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	@.dev/bin/dev test hack/dev/fuzz.sh $(FUZZTIME) $(PKG)

.PHONY: soak
soak: ## Play HISTORIES histories of attempts against their model; deliver EVENTS webhook events, revoke REVOCATIONS keys, edit exams for CHAOS, whatever fails
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	@.dev/bin/dev test go test -count 1 -timeout 4h -v -run '^TestRandomHistoriesAgreeWithTheModel$$' ./server/attempts \
		-rapid.checks=$$(( ($(HISTORIES) + 3) / 4 )) # in each of the test's four workers
	@WEBHOOKS_TEST_EVENTS=$(EVENTS) .dev/bin/dev test go test -count 1 -timeout 4h -v \
		-run '^TestEveryEventArrivesWhateverFails$$' ./server/webhooks # WEBHOOKS_TEST_SEED=… plays a schedule again
	@GATE_TEST_REVOCATIONS=$(REVOCATIONS) GATE_TEST_LIVES=100 GATE_TEST_KEYS=100000 .dev/bin/dev test go test -count 1 -timeout 4h -v \
		-run '^(TestNoRequestPassesAfter|TestBucketsOutlive|TestATierOfManyKeys)' ./server/gate
	@.dev/bin/dev test go test -count 1 -timeout 4h -v -run '^TestGrantsAreThoseOfAContinuousBucket' ./server/gate -rapid.checks=20000
	@CONTROLLERS_TEST_CHAOS=$(CHAOS) .dev/bin/dev test go test -count 1 -timeout 2h -v \
		-run '^TestWhatIsServedIsWhatIsDeclaredWhateverIsKilled$$' ./controllers
	@GATE_TEST_AWAY=60s .dev/bin/dev test go test -count 1 -timeout 1h -v -run '^TestRedisAwayUnderLoad' ./server/httpapi

.PHONY: e2e
e2e: build ## Prove the whole way on a running make dev (E2EFLAGS, such as -duration 10s); with E2E_CLUSTER=1 on the cluster of KUBECONFIG
	go test -tags e2e -count 1 -timeout 2h -v $(if $(E2E_CLUSTER),./hack/e2e/cluster,./hack/e2e) -args $(E2EFLAGS)

.PHONY: pgo
pgo: ## Record default.pgo again, the profile for the compiler (on a quiet machine, before a release)
	go run -trimpath ./hack/bench -only profile -duration 60s

.PHONY: bench
bench: ## Measure against the baselines (BENCHFLAGS='-only all -small -duration 2s'; -help lists all; see docs/performance.md)
	go run -trimpath ./hack/bench $(BENCHFLAGS)

##@ Generate

.PHONY: generate
generate: ## Write what is generated: deep copies, apply configurations, CRDs, the operator's role, queries
	CONTROLLER_GEN=$(call tool,codegen,controller-gen) SQLC=$(call tool,codegen,sqlc) hack/codegen/generate.sh

# Packages with tests named TestGolden…: only their test programs know the flag -update.
golden-packages = $$(grep -rl --include='*_test.go' 'golden\.Compare(' server controllers | xargs -n1 dirname | sort -u | sed '/testkit/d; s|^|./|')

.PHONY: golden
golden: ## Rewrite the lists under testdata that tests named TestGolden… compare: flags, metrics, routes, errors, conditions, events
	@mkdir -p .dev/bin
	@$(GOBUILD) -buildvcs=false -o .dev/bin/dev ./hack/dev
	@.dev/bin/dev test go test -count 1 -run '^TestGolden' $(golden-packages) -update

.PHONY: fmt
fmt: ## Format all code
	$(call tool,lint,golangci-lint) fmt ./...

.PHONY: tidy
tidy: ## Tidy every module
	@for module in $(MODULES); do echo "go mod tidy in $$module"; GOFLAGS=-mod=mod go -C $$module mod tidy; done

.PHONY: check-tidy
check-tidy: ## Fail if a module is not tidy
	@for module in $(MODULES); do echo "go mod tidy -diff in $$module"; GOFLAGS=-mod=mod go -C $$module mod tidy -diff; done

.PHONY: clean
clean: ## Remove what was built and the state of make dev (which must be stopped)
	@$(MAKE) --no-print-directory dev-down
	rm -rf bin .dev

.PHONY: help
help: ## Say what there is
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
