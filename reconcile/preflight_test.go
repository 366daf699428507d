package reconcile

import (
	"context"
	"errors"
	"testing"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
)

func TestPreflight(t *testing.T) {
	if err := Preflight(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, f := range families() {
		k, err := nft.Open(f, schema, host.Generation)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := missing(context.Background(), k, f, errors.New("no")).Error(), "nft or the kernel refuses the "+string(f)+" program: no"; got != want {
			t.Errorf("every need is met here, yet: %s", got)
		}
	}
	if out := run(t, "nft list tables"); out != "" {
		t.Errorf("the preflight left tables: %s", out)
	}
}
