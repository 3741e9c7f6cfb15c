package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	// healthyRate is in requests/s, on a key of its own: a steady, modest client.
	healthyRate = 300
	// attackNice is the niceness of the attacker: on the same cores, what is measured shall be the server's work.
	attackNice = 10
	// hostileParts is which part of the duration a turn takes.
	hostileParts = 3
	// settleTime is how long the server is left alone after an attack, before its memory is read and the next begins.
	settleTime = time.Second
	// mostMemory, in MB, is what a pod may take whatever is done to it.
	mostMemory = 512
)

// hostile is one attack, and what came of it.
type hostile struct {
	name  string
	order attackOrder

	quiet, beside sample
	// quietTails and besideTails are the p99 of each turn.
	quietTails, besideTails []time.Duration
	// before, peak and after are the API's resident memory in MB.
	before, peak, after float64
	result              attackResult
	// refused counts requests that were refused.
	refused float64
}

func attacks() []*hostile {
	return []*hostile{
		{name: "1,000 clients, a byte a second", order: attackOrder{Kind: attackSlow, Addresses: 50}},
		{name: "4,000 idle connections", order: attackOrder{Kind: attackIdle, Addresses: 50}},
		{name: "bodies of 1 GB", order: attackOrder{Kind: attackBodies, Addresses: 8}},
		{name: "1,000 bodies of 1 MB, one byte short", order: attackOrder{Kind: attackHeld, Addresses: 50}},
		{name: "100k malformed keys/s, one address", order: attackOrder{Kind: attackMalformed, Addresses: 1}},
		{name: "100k unknown keys/s, one address", order: attackOrder{Kind: attackUnknown, Addresses: 1}},
		{name: "100k keys/s of both kinds, 200 addresses", order: attackOrder{Kind: attackBoth, Addresses: 200}},
		{name: "  the same, a new connection for each 64", order: attackOrder{Kind: attackChurn, Addresses: 200}},
	}
}

// measureHostile asks for an overview at a steady rate while somebody attacks, and in between.
func measureHostile(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	healthy, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return err
	}
	raiseFileLimit()
	healthy.rate = healthyRate
	if _, _, err := healthy.drive(ctx, time.Second); err != nil {
		return err
	}
	table := []string{"attack|RSS in MB before|peak|after|connections/s|lost/s|MB/s sent|refused/s"}
	for _, h := range attacks() {
		if only := os.Getenv("ATTACK"); only != "" && !strings.Contains(h.name, only) {
			continue
		}
		s.say("%s", h.name)
		h.order.Target, h.order.Key = s.api, s.keys[1]
		for range s.attackTurns {
			if err := h.turn(ctx, s, healthy, duration/hostileParts); err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSpace(h.name), err)
			}
		}
		h.report(r)
		table = append(table, h.line())
	}
	r.notef("%s", columns(table))
	r.notef("The attacker runs at niceness %d on the same cores. \"One address\" is the healthy client's own. p99 in the ratios is that of the median turn.", attackNice)
	return nil
}

// turn measures the healthy client alone, then beside the attack.
func (h *hostile) turn(ctx context.Context, s *stack, healthy load, duration time.Duration) error {
	quiet, err := s.during(ctx, healthy, duration, processAPI, processRedis, processPostgres)
	if err != nil {
		return fmt.Errorf("before the attack: %w", err)
	}
	h.quiet.add(quiet)
	h.quietTails = append(h.quietTails, quiet.percentile(0.99))
	pods, err := s.watched(processAPI)
	if err != nil {
		return err
	}
	pid := pods[0].pid
	before, err := readMemory(pid)
	if err != nil {
		return err
	}
	if err := resetPeak(pid); err != nil {
		return err
	}
	if h.before == 0 {
		h.before = before.now
	}
	counted, err := s.countRefusals(ctx)
	if err != nil {
		return err
	}
	attack, err := s.startAttack(ctx, h.order)
	if err != nil {
		return err
	}
	beside, err := s.during(ctx, healthy, duration, processAPI, processRedis, processPostgres)
	result, stopErr := attack.stop()
	if err := errors.Join(err, stopErr); err != nil {
		return fmt.Errorf("beside the attack: %w", err)
	}
	h.beside.add(beside)
	h.besideTails = append(h.besideTails, beside.percentile(0.99))
	h.result.Opened, h.result.Lost, h.result.Sent = h.result.Opened+result.Opened, h.result.Lost+result.Lost, h.result.Sent+result.Sent
	since, err := s.countRefusals(ctx)
	if err != nil {
		return err
	}
	h.refused += since - counted
	if !wait(ctx, time.NewTimer(settleTime), settleTime) {
		return context.Cause(ctx)
	}
	after, err := readMemory(pid)
	h.peak, h.after = max(h.peak, after.peak), after.now
	return err
}

func (h *hostile) report(r *report) {
	r.row("healthy, beside "+strings.TrimSpace(h.name), &h.beside)
	r.row("  the same in quiet", &h.quiet)
	name := strings.TrimSpace(h.name)
	r.judge(verdict{
		what: name + ": healthy p99 beside it / in quiet", unit: "×", bar: 2, goal: 1.2,
		measured: median(h.besideTails).Seconds() / median(h.quietTails).Seconds(),
	})
	r.judge(verdict{what: name + ": peak memory of the API", unit: " MB", bar: mostMemory, measured: h.peak})
}

func (h *hostile) line() string {
	each := func(n float64) string { return fmt.Sprintf("%.0f", n/h.beside.elapsed.Seconds()) }
	return strings.Join([]string{
		h.name, fmt.Sprintf("%.0f", h.before), fmt.Sprintf("%.0f", h.peak), fmt.Sprintf("%.0f", h.after),
		each(float64(h.result.Opened)), each(float64(h.result.Lost)), each(float64(h.result.Sent) / 1e6), each(h.refused),
	}, "|")
}

// attackProcess is an attacker that runs.
type attackProcess struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// startAttack returns when the attack has begun.
func (s *stack) startAttack(ctx context.Context, order attackOrder) (*attackProcess, error) {
	argument, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", strconv.Itoa(attackNice), s.self, roleAttack, string(argument))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithParent()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the attack: %w", err)
	}
	p := &attackProcess{cmd: cmd, in: in, out: bufio.NewReader(out)}
	if _, err := p.out.ReadString('\n'); err != nil {
		_, stopErr := p.stop()
		return nil, fmt.Errorf("start the attack: %w", errors.Join(err, stopErr))
	}
	return p, nil
}

// stop ends the attack and returns what it did.
func (p *attackProcess) stop() (result attackResult, err error) {
	_ = p.in.Close()
	line, err := p.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &result)
	}
	return result, errors.Join(err, p.cmd.Wait())
}

// memory is a process's resident memory in MB.
type memory struct{ now, peak float64 }

func readMemory(pid int) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	kilobytes := func(field string) float64 {
		_, rest, _ := strings.Cut(string(text), "\n"+field+":")
		number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		value, _ := strconv.ParseFloat(number, 64)
		return value
	}
	m := memory{now: kilobytes("VmRSS") / 1024, peak: kilobytes("VmHWM") / 1024}
	if m.now == 0 {
		return m, fmt.Errorf("/proc/%d/status does not tell the memory", pid)
	}
	return m, nil
}

// resetPeak lets the kernel note the peak anew.
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// countRefusals returns how many requests the API has refused.
func (s *stack) countRefusals(ctx context.Context) (float64, error) {
	found, err := s.metricsOf(ctx, processAPI)
	return found.sum("examprep_http_requests_total", `status="4xx"`), err
}
