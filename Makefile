# Everything that is checked, measured or made. `make help` lists it. Go alone is enough to build and to run the tests; the
# race detector needs a C compiler, and test/ needs python3 and the shared folder (KEYSTRAND_SHARED, default ../shared).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
# TESTFLAGS are added to every go test, such as TESTFLAGS=-v.
TESTFLAGS ?=
# FUZZTIME is given to each fuzz target.
FUZZTIME ?= 20s
KEYSTRAND_SHARED ?= $(abspath ../shared)
export KEYSTRAND_SHARED

COMMIT := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
# Two builds of one commit give the same bytes: no paths, no time.
BUILDFLAGS := -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(COMMIT)"
NESTED := $(patsubst %/go.mod,%,$(wildcard test/go.mod bench/go.mod tools/go.mod))

##@ Build
.PHONY: build
build: ## build bin/keystrand
	CGO_ENABLED=0 $(GO) build $(BUILDFLAGS) -o bin/keystrand ./cmd/keystrand

.PHONY: bom
bom: build ## bill of materials and checksum beside the binary (CycloneDX)
	cd tools && $(GO) run ./bom ../bin/keystrand > ../bin/keystrand.cdx.json
	cd bin && sha256sum keystrand keystrand.cdx.json > SHA256SUMS

.PHONY: generate
generate: ## regenerate generated files; CI wants no difference
	$(GO) generate ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .cache

##@ Check
.PHONY: check
check: format vet lint arrows modules ## format, vet, linters, short tests: under 3 minutes
	$(GO) test -short -timeout 150s $(TESTFLAGS) ./...

.PHONY: format
format: ## fail on files that gofmt would change
	@bad=$$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -f "$$f" ] || echo "$$f"; done | xargs -r gofmt -l); \
	if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi

.PHONY: vet
vet: ## go vet, with and without fault injection, nested modules too
	$(GO) vet ./...
	$(GO) vet -tags faultinject ./...
	@for m in $(NESTED); do echo "go vet in $$m"; (cd "$$m" && $(GO) vet -tags long ./...); done

.PHONY: lint
lint: bin/staticcheck ## staticcheck, pinned in tools/go.mod
	bin/staticcheck ./...
	bin/staticcheck -tags faultinject ./cmd/... ./internal/...
	@for m in $(NESTED); do echo "staticcheck in $$m"; (cd "$$m" && ../bin/staticcheck -tags long ./...); done

bin/staticcheck: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck

.PHONY: arrows
arrows: ## who imports whom, and what may not appear at all
	$(GO) test $(TESTFLAGS) ./internal/archtest

.PHONY: modules
modules: ## the module cache holds what go.sum says, and go.mod says what is used
	$(GO) mod verify
	@for m in . $(NESTED); do (cd "$$m" && $(GO) mod tidy -diff) || { echo "go mod tidy would change $$m/go.mod"; exit 1; }; done

.PHONY: vulnerabilities
vulnerabilities: ## known vulnerabilities that are reachable; needs the network
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

##@ Test
.PHONY: test
test: ## every test that needs no service, with the race detector: under 5 minutes when warm
	$(GO) test -race -timeout 12m $(TESTFLAGS) $$($(GO) list ./... | grep -v '/internal/server$$')
	$(GO) test -race -timeout 12m $(TESTFLAGS) ./internal/server # its bounds are in wall time: it gets the machine to itself
	$(GO) test -timeout 12m $(TESTFLAGS) ./internal/server ./internal/store # what the detector makes too slow, or is not free of races: the SDK

.PHONY: race
race: test ## the same as test

.PHONY: sim-crash
sim-crash: ## a crash at every file operation of a script, and during recovery; prints the numbers
	CRASH_STRIDE=1 KEYSTRAND_CRASH_ALL=1 $(GO) test -count=1 -v -timeout 40m -run 'Crash' ./internal/vfs ./internal/store ./internal/state ./internal/sequencer

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: integration
integration: ## official clients and the articles' programs against a broker process
	cd test && $(GO) test -count=1 -timeout 20m $(TESTFLAGS) ./...

.PHONY: kill
kill: ## SIGKILL of the broker ten times under load from the official SDK, judged
	cd test && $(GO) test -count=1 -timeout 20m -v -run SIGKILL . -long

.PHONY: isolation
isolation: ## one failing or hanging message group of 1,000: rate and p99 of the others, judged; about 20 minutes
	cd test && $(GO) test -count=1 -timeout 60m -v -tags long -run Isolation . -long

##@ Measure
.PHONY: bench-keyed
bench-keyed: ## G1 and G2: many keys, order kept, handlers in parallel
	cd bench && $(GO) run ./scenarios/keyed

.PHONY: bench-send
bench-send: ## G7: durable sends
	cd bench && $(GO) run ./scenarios/send

.PHONY: bench-start
bench-start: ## G22: launch until the first message is accepted
	cd bench && $(GO) run ./scenarios/start

##@ See
.PHONY: demo
demo: ## the whole way with faults, judged
	$(GO) run ./cmd/keystrand demo

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
