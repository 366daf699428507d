package gossip

import (
	"bytes"
	"context"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answering answers with who asks for what.
func answering(name string) ClusterConfig {
	return ClusterConfig{Answer: func(_ context.Context, question []byte) []byte { return append([]byte(name+": "), question...) }}
}

// ask asks for at most two seconds.
func (c *Cluster) ask(t *testing.T, question string) (map[string]string, []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	answers, silent := c.Ask(ctx, []byte(question))
	texts := map[string]string{}
	for name, a := range answers {
		texts[name] = string(a)
	}
	if len(c.asking) > 0 {
		t.Error("a question is still waited for")
	}
	return texts, silent
}

// TestAsk: everybody is asked, and who doesn't answer is named: an earlier
// release, one that can't be reached, one that died a moment ago.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		for i := range 5 {
			cfg := answering(hostName(i))
			if i == 2 {
				cfg.Answer = nil
			}
			s.start(i, cfg).SetPeers(simulatedPeers(5))
		}
		if answers, silent := s.hosts[0].ask(t, "too early"); len(answers)+len(silent) > 0 {
			t.Error(answers, silent)
		}
		s.joined()
		began := time.Now()
		answers, silent := s.hosts[0].ask(t, "how are you?")
		if want := map[string]string{"n001": "n001: how are you?", "n003": "n003: how are you?", "n004": "n004: how are you?"}; !reflect.DeepEqual(answers, want) || !slices.Equal(silent, []string{"n002"}) {
			t.Error(answers, silent)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Error("n2 was waited for", took)
		}
		s.network.close(func(from, to netip.Addr, _ bool) bool {
			return from == hostAddress(1).Addr() && to == hostAddress(0).Addr()
		})
		s.kill(3)
		if answers, silent = s.hosts[0].ask(t, "and now?"); len(answers) != 1 || !slices.Equal(silent, []string{"n001", "n002", "n003"}) {
			t.Error(answers, silent)
		}
	})
}

// TestAskAtOnce: an answer from everybody ends the waiting.
func TestAskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		for i := range 20 {
			s.start(i, answering(hostName(i))).SetPeers(simulatedPeers(20))
		}
		s.joined()
		began := time.Now()
		if answers, silent := s.hosts[7].ask(t, "?"); len(answers) != 19 || len(silent) > 0 || time.Since(began) > time.Second {
			t.Error(len(answers), silent, time.Since(began))
		}
	})
}

// TestAskTooOften: a host has little to do for one that asks all the time.
func TestAskTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, network: newNetwork()}
		defer s.stop()
		answered := 0
		cfg := ClusterConfig{Answer: func(context.Context, []byte) []byte { answered++; return make([]byte, 2*maxAnswered) }}
		s.start(0, ClusterConfig{}).SetPeers(simulatedPeers(2))
		s.start(1, cfg).SetPeers(simulatedPeers(2))
		s.joined()
		for range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			answers, _ := s.hosts[0].Ask(ctx, nil)
			if a, ok := answers[hostName(1)]; ok && len(a) != maxAnswered {
				t.Error("an answer of", len(a))
			}
			cancel()
		}
		if answered < 8 || answered > 20 {
			t.Error(answered, "answers in three seconds")
		}
	})
}

// Nobody but who was asked may answer, and once.
func TestAnswersOfOthers(t *testing.T) {
	i := &inquiry{open: map[string]bool{"n1": true, "n2": true}, answers: map[string][]byte{}, done: make(chan struct{})}
	for _, from := range []string{"n1", "n3", "n1", "n2", "n2"} {
		i.take(letter{from: from, body: []byte(from)})
	}
	<-i.done
	if len(i.answers) != 2 || string(i.answers["n1"]) != "n1" {
		t.Errorf("%q", i.answers)
	}
}

// A letter that can't be read is counted, and one of a later release isn't.
func TestMalformedLetters(t *testing.T) {
	c, err := NewCluster(ClusterConfig{NodeName: "n0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []kind{kindQuestion, kindAnswer, kindAnswer + 1} {
		c.receive(begin(k))
	}
	if n := c.View().Stats.Refused; n != 2 {
		t.Error(n, "of 2 are counted")
	}
}

func FuzzLetter(f *testing.F) {
	f.Add((&letter{"n1", 7, []byte("?")}).message(kindQuestion))
	f.Add((&letter{"n1", 7, []byte(strings.Repeat("!", 2000))}).message(kindAnswer))
	f.Fuzz(func(t *testing.T, message []byte) {
		k, r, ok := open(message)
		if !ok {
			return
		}
		l, ok := readLetter(k, r)
		if !ok {
			return
		}
		if l.from == "" || len(l.body) > maxAnswered || k == kindQuestion && len(l.body) > maxQuestion {
			t.Errorf("%d bytes from %q", len(l.body), l.from)
		}
		if !bytes.HasPrefix(message[2:], l.message(k)[2:]) {
			t.Errorf("%q comes back as %q", message, l.message(k))
		}
	})
}
