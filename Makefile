# What a developer types. Everything that these need and the machine lacks installs itself, pinned: Go programs from the
# modules in hack/, servers from the machine's packages.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The same flags everywhere, hack/kubernetes included: each package is compiled once for all.
GOBUILD := CGO_ENABLED=0 go build -trimpath
# The flags for modules in hack/: those that their tools are built with.
HACKFLAGS := GOFLAGS="-mod=readonly -trimpath" CGO_ENABLED=0
# Each folder with a go.mod; $(call each-module,COMMAND) runs a shell command in each that has packages.
MODULES := $(patsubst %/,%,$(dir $(shell git ls-files '*go.mod')))
each-module = for module in $(MODULES); do ( cd $$module; [ "$$module" = . ] || export $(HACKFLAGS); \
	if [ -z "$$(go list ./... 2>/dev/null)" ]; then exit; fi; echo "== $$module"; $(1) ); done

# The image that make image writes: its version (from git unless given) and platforms, such as linux/amd64,linux/arm64.
VERSION ?=
PLATFORMS ?= linux/amd64

# Packages to test, a pattern for names of tests, and flags for go test: make test PKG=./server/gate/... TESTFLAGS='-race -run Tier'
# Vet is off because make lint vets. Without -pgo=off the compiler builds all packages once more, by default.pgo, for main.
PKG ?= ./...
RUN ?=
TESTFLAGS ?= -race -vet=off -pgo=off -count=1 -ldflags=-w -p 2 -parallel 2 -timeout 20m
# With this and -trimpath, make test-short, mutants and soak share what they compile with the tools.
GOENV := CGO_ENABLED=0
# How often make test-stress runs each package.
ROUNDS ?= 1
# The database of vulnerabilities to use if vuln.go.dev does not answer: a folder.
VULNDB ?= $(wildcard ../shared/vulndb)
# How many random histories of attempts make soak plays.
HISTORIES ?= 100000
# How many webhook events make soak records while everything that can fail does.
EVENTS ?= 100000
# How many keys make soak revokes while they are used and Redis fails.
REVOCATIONS ?= 1000
# How often make soak kills PostgreSQL between the statement of opens and its flush, and how often a proxy cuts the connections there.
CRASHES ?= 200
CUTS ?= 1000
# How many random schedules of requests make soak compares with a continuous bucket, in each of two packages.
SCHEDULES ?= 2000
# How long make soak edits 200 ExamContents while operator, kube-apiserver, etcd and PostgreSQL are killed.
CHAOS ?= 10m
# How long make soak attacks a pod with hostile requests.
HOSTILE ?= 10m
# How long each fuzz target runs.
FUZZTIME ?= 20s
E2EFLAGS ?=
BENCHFLAGS ?=

# A tool of one of the modules, built on first use and kept in Go's build cache.
tool = $$(CGO_ENABLED=0 GOFLAGS=-mod=readonly go -C $(CURDIR)/hack/$(1) tool -n $(2))

##@ Run

.PHONY: .dev/bin/dev
.dev/bin/dev:
	@$(GOBUILD) -buildvcs=false -o $@ ./hack/dev

.PHONY: deps
deps: .dev/bin/dev ## Install what is missing of postgresql, redis-server, gcc, libc6-dev, openssh-client, openssl, curl, npm and chromium (as root or with sudo)
	@.dev/bin/dev deps $(or $(FOR),test)

.PHONY: dev
dev: FOR := dev
dev: deps ## Start everything on this machine, until Ctrl-C or make dev-down
	@exec .dev/bin/dev up

.PHONY: dev-down
dev-down: .dev/bin/dev ## Stop make dev and the servers for tests
	@exec .dev/bin/dev down

.PHONY: build
build: ## Build bin/examprep
	$(GOBUILD) -ldflags "-s -w" -o bin/examprep .

.PHONY: image
image: ## Build the image without a container engine: dist/examprep.tar and its list of contents (VERSION, PLATFORMS)
	@cd hack/image && $(GOBUILD) -buildvcs=false -o $(CURDIR)/.dev/bin/image .
	@.dev/bin/image -o dist/examprep.tar -platform $(PLATFORMS) $(if $(VERSION),-version $(VERSION))

##@ Check

.PHONY: test-servers
test-servers: FOR := short
test-servers: deps ## Start the servers for tests, which stay until make dev-down; for PKG also an API server if it needs one
	@.dev/bin/dev servers $(if $(filter-out file,$(origin PKG)),$(PKG))

.PHONY: test-short
test-short: FOR := short
test-short: deps ## Test PKG in seconds: no race detector, samples of enumerations (RUN)
	@$(GOENV) .dev/bin/dev test go test -trimpath -short $(if $(RUN),-run '$(RUN)') $(PKG) | awk '{ print; fflush() } \
		/^(ok|FAIL|---)/ && !/no tests to run/ { ran = 1 } END { if (!ran) { print "no test ran: no test of PKG has RUN in its name; go test PKG -list . lists them"; exit 1 } }'

# The packages that take longest begin first. All packages are compiled before the first test, whose servers would share the
# processors with the compiler. Programs are not: they would be linked.
FIRST := ./server/httpapi ./server/gate ./controllers ./server/webhooks/delivery ./server/command ./server/catalog ./server/attempts
# What is only sampled under the race detector runs whole without it.
WHOLE := -run 'Interleaving|Histories|RealPapers|LintAgrees|LittleMemory' \
	./server/attempts ./server/keys/directory ./server/catalog ./server/content ./server/content/assemble ./server/content/jsonl

.PHONY: test
test: deps ## Test with the race detector on the servers that make test-servers starts (PKG, TESTFLAGS)
ifeq ($(origin PKG),file)
	@go build -race $$(go list -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./...)
	@failed=0; .dev/bin/dev test go test $(TESTFLAGS) $(FIRST) ./... || failed=1; \
	$(GOENV) .dev/bin/dev test go test -trimpath -count=1 -timeout 20m $(WHOLE) || failed=1; exit $$failed
else
	@.dev/bin/dev test go test $(TESTFLAGS) $(PKG)
endif

.PHONY: test-times
test-times: deps ## Test PKG with TESTFLAGS, and print the 40 slowest tests
	@.dev/bin/dev test go test -json $(TESTFLAGS) $(if $(filter file,$(origin PKG)),$(FIRST)) $(PKG) >.dev/test.json || true; \
	awk -f hack/dev/slowest.awk .dev/test.json

.PHONY: test-stress
test-stress: deps ## Test PKG in ROUNDS while six loops keep the machine busy, shuffled, each test program stopped once: nothing may depend on time
	@$(GOBUILD) -buildvcs=false -o .dev/bin/stress ./hack/dev/stress
	@.dev/bin/dev test .dev/bin/stress $(ROUNDS) $(PKG)

.PHONY: mutants
mutants: deps ## Break the product in the ways that hack/lint/mutants.txt lists: for each a test must fail (PKG)
	@$(HACKFLAGS) go -C hack/lint build -o $(CURDIR)/.dev/bin/mutants ./mutants
	@.dev/bin/dev test .dev/bin/mutants $(PKG)

.PHONY: test-tools
test-tools: ## Test the tools in hack/ that are modules of their own
	go -C hack/kubernetes test ./...
	go -C hack/healthchecks test -count 1 ./... # these two read files of other modules, which the cache does not see
	go -C hack/lint test -count 1 ./...
	go -C hack/image test ./...

.PHONY: chart
chart: deps ## Check the chart: both Helms, unit tests, the cluster's schemas, alerts, config/ equal to it
	$(HACKFLAGS) go -C hack/alerts test -count 1 -timeout 30m .
	@$(HACKFLAGS) .dev/bin/dev test go -C hack/chart test -count 1 -timeout 30m . # upgrades on a real API server

# Tests that cause what alerts are about, by the binary.
FIRING = $(GOBUILD) -buildvcs=false -o .dev/bin/examprep . && EXAMPREP_BINARY=$(CURDIR)/.dev/bin/examprep $(HACKFLAGS) \
	.dev/bin/dev test go -C hack/alerts test -count 1 -timeout 30m

.PHONY: alerts
alerts: deps ## Make those of the chart's alerts fire that need no cluster: cause, in real processes on real stores, what each is about
	@$(FIRING) -v ./firing

.PHONY: lint
lint: FOR := lint
lint: deps ## Lint with every linter that .golangci.yaml does not give a reason to switch off, the layout of packages, the HTTP contract, and the types of the console's scripts
	go -C hack/lint run ./layout -root $(CURDIR)
	go -C hack/lint run ./prose -root $(CURDIR)
	@linter=$(call tool,lint,golangci-lint); $(call each-module,$$linter run ./...)
	.dev/bin/dev npm redocly lint --extends=recommended-strict api/openapi/openapi.json
	.dev/bin/dev npm spectral lint --ruleset hack/lint/spectral.yaml --fail-severity hint api/openapi/openapi.json
	$(HACKFLAGS) go run ./hack/console check

# govulncheck -version succeeds without a database; only the line "DB updated" shows that there is one.
.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities that the code reaches, in every module (vuln.go.dev, else the folder VULNDB)
	@checker=$(call tool,lint,govulncheck); database=; \
	if ! $$checker -version 2>/dev/null | grep -q '^DB updated'; then \
		[ -n "$(VULNDB)" ] || { echo "vuln.go.dev does not answer, and VULNDB is not set: known vulnerabilities were NOT looked for"; exit 1; }; \
		echo "vuln.go.dev does not answer; using $(VULNDB)"; database="-db file://$(abspath $(VULNDB))"; \
	fi; \
	$(call each-module,$$checker $$database ./...)

.PHONY: fuzz
fuzz: deps ## Run each fuzz target for FUZZTIME
	@.dev/bin/dev test hack/dev/fuzz.sh $(FUZZTIME) $(PKG)

.PHONY: soak
soak: deps ## Play HISTORIES histories of attempts against their model; deliver EVENTS webhook events, revoke REVOCATIONS keys, open through CRASHES and CUTS, edit exams for CHAOS, whatever fails; attack a pod for HOSTILE
	@$(GOENV) .dev/bin/dev test go test -trimpath -count 1 -timeout 4h -v -run '^TestRandomHistoriesAgreeWithTheModel$$' ./server/attempts \
		-rapid.checks=$$(( ($(HISTORIES) + 3) / 4 )) # in each of the test's four workers
	@DIRECTORY_TEST_WHOLE=1 $(GOENV) .dev/bin/dev test go test -trimpath -count 1 -timeout 1h -v \
		-run '^Test(Enumeration|NoInterleaving)' ./server/keys/directory
	@$(GOENV) .dev/bin/dev test go test -trimpath -count 1 -timeout 4h -v -run '^TestGrantsAreThoseOf(A|One)ContinuousBucket' \
		./server/gate ./server/ratelimit -rapid.checks=$(SCHEDULES)
	@WEBHOOKS_TEST_EVENTS=$(EVENTS) CONTROLLERS_TEST_CHAOS=$(CHAOS) COMMAND_TEST_HOSTILE=$(HOSTILE) GATE_TEST_AWAY=60s GATE_TEST_REVOCATIONS=$(REVOCATIONS) \
		GATE_TEST_KEYS=100000 GATE_TEST_CUTS=20 GATE_TEST_CHANGES=15000 GATE_TEST_LIVES=20 \
		ATTEMPTS_TEST_CRASHES=$(CRASHES) ATTEMPTS_TEST_CUTS=$(CUTS) \
		.dev/bin/dev test hack/dev/soak.sh -timeout 4h -v $(PKG) # WEBHOOKS_TEST_SEED=… and COMMAND_TEST_SEED=… play a schedule again

.PHONY: soak-short
soak-short: deps ## Run each soak test once at its smallest size, and the quickest tests of alerts that fire, alone on the machine
	@.dev/bin/dev test hack/dev/soak.sh -timeout 15m $(PKG)
ifeq ($(origin PKG),file)
	@$(FIRING) -run '^TestAlertOf' ./firing
endif

.PHONY: browser
browser: deps ## Test the console in Chromium, on the API, the worker, the stores and a sign-in provider (RUN)
	@HTTPAPI_TEST_BROWSER=1 $(GOENV) .dev/bin/dev test go test -trimpath -count 1 -timeout 1h -parallel 2 $(if $(CI),,-v) $(if $(RUN),-run '$(RUN)') ./server/httpapi/browsertest

.PHONY: sheets
sheets: FOR := sheets
sheets: deps ## Let LibreOffice open the template of content import and save it as XLSX and CSV: both must import as before
	@SHEET_TEST_LIBREOFFICE=1 $(GOENV) .dev/bin/dev test go test -trimpath -count 1 -v -run LibreOffice ./server/content/sheet

.PHONY: pgbouncer
pgbouncer: FOR := pgbouncer
pgbouncer: deps ## Run migrate, an API and a worker behind PgBouncer: they work with pool_mode = session, and the other modes break what docs/sizing.md says
	@COMMAND_TEST_PGBOUNCER=1 $(GOENV) .dev/bin/dev test go test -trimpath -count 1 -v -run PgBouncer ./server/command

.PHONY: memory
memory: deps ## Load and attack an API pod in a cgroup of the chart's memory limit, as root: the kernel must not kill it
	@COMMAND_TEST_CGROUP=1 $(GOENV) .dev/bin/dev test go test -trimpath -count 1 -v -run '^Test(APIPodStaysWithinTheChartsMemory|OneKeyHarmsNobody)$$' ./server/command

.PHONY: e2e
e2e: build ## Prove the whole way on a running make dev (E2EFLAGS, such as -duration 10s); with E2E_CLUSTER=1 on the cluster of KUBECONFIG
	go test -tags e2e -count 1 -timeout 2h -v $(if $(E2E_CLUSTER),./hack/e2e/cluster,./hack/e2e) -args $(E2EFLAGS)

.PHONY: pgo
pgo: FOR := bench
pgo: deps ## Record default.pgo again, the profile for the compiler (on a quiet machine, before a release)
	go run -trimpath ./hack/bench -only profile -duration 60s

.PHONY: bench
bench: FOR := bench
bench: deps ## Measure against the baselines (BENCHFLAGS='-only all -small -duration 2s'; -help lists all; see docs/performance.md)
	go run -trimpath ./hack/bench $(BENCHFLAGS)

##@ Generate

.PHONY: generate
generate: FOR := lint
generate: deps ## Write what is generated: deep copies, apply configurations, CRDs, the operator's role, queries, the console's copied modules, the complete contract and its page
	CONTROLLER_GEN=$(call tool,codegen,controller-gen) SQLC=$(call tool,codegen,sqlc) hack/codegen/generate.sh
	$(HACKFLAGS) go run ./hack/console vendor
	$(HACKFLAGS) go run ./hack/openapi

# Packages with tests named TestGolden…: only their test programs know the flag -update.
golden-packages = $$(grep -rl --include='*_test.go' 'golden\.Compare' server controllers docs | xargs -n1 dirname | sort -u | sed '/testkit/d; s|^|./|')

.PHONY: golden
golden: deps ## Rewrite the lists under testdata that tests named TestGolden… compare: flags, metrics, routes, errors, conditions, events
	@.dev/bin/dev test go test -count 1 -run '^TestGolden' $(golden-packages) -update

.PHONY: fmt
fmt: ## Format all code
	@linter=$(call tool,lint,golangci-lint); $(call each-module,$$linter fmt ./...)

.PHONY: tidy
tidy: ## Tidy every module
	@for module in $(MODULES); do echo "go mod tidy in $$module"; GOFLAGS=-mod=mod go -C $$module mod tidy; done

.PHONY: check-tidy
check-tidy: ## Fail if a module is not tidy
	@for module in $(MODULES); do echo "go mod tidy -diff in $$module"; GOFLAGS=-mod=mod go -C $$module mod tidy -diff; done

.PHONY: clean
clean: .dev/bin/dev ## Stop everything, and delete what was built and all data of make dev and of tests
	@.dev/bin/dev clean
	rm -rf bin .dev

.PHONY: help
help: ## Say what there is
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
