package nft

import "sigs.k8s.io/knftables"

// Render gives a table as commands that nft reads, sorted, so that two
// renderings can be compared line by line. It needs neither root nor nft.
func Render(t *Table) string {
	// knftables hands out transactions only through an Interface; the Fake is
	// the one that needs no kernel.
	w := newWriter(knftables.NewFake(knftables.Family(t.Family), TableName).NewTransaction(), t)
	w.whole(diff(&held{}, t, false))
	return w.tx.String()
}
