package main

import (
	"os"
	"testing"
	"time"
)

func TestParseStatIsNotMisledByTheName(t *testing.T) {
	got, err := parseStat("42 (a) b (c)) S 7 42 42 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0 100 0 0")
	want := processStat{parent: 7, own: 330 * time.Millisecond, ended: 770 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestParseStatRefusesWhatIsCutShort(t *testing.T) {
	for _, text := range []string{"", "42 (x) S 7", "42 (x) S y 42 42 0 -1 0 0 0 0 0 11 22 33 44 20"} {
		if got, err := parseStat(text); err == nil {
			t.Errorf("%q gives %+v, want an error", text, got)
		}
	}
}

func TestWatchReadsThisProcess(t *testing.T) {
	w, err := startWatch(watched{name: "test", pid: os.Getpid(), tree: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.stop()
	if err != nil || len(s.cpu) != 1 || s.cpu[0].process != "test" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestTheMachinesTimeIsCounted(t *testing.T) {
	now := readMachine()
	if now.all <= 0 || now.stolen < 0 || now.stolen > now.all {
		t.Errorf("of %v ticks others had %v", now.all, now.stolen)
	}
	if later := (machineTime{now.stolen + 25, now.all + 100}); later.stolenSince(now) != 0.25 {
		t.Errorf("others had %v of the time, want a quarter", later.stolenSince(now))
	}
}
