package reconcile

import (
	"context"
	"fmt"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
)

// Cleanup removes our tables of both families. That they are not there is no
// error.
func Cleanup(ctx context.Context) error {
	for _, f := range families() {
		k, err := nft.Open(f, schema, host.Generation)
		if err != nil {
			return fmt.Errorf("nftables can't be used: %w", err)
		}
		if err := k.Cleanup(ctx); err != nil {
			return err
		}
	}
	return nil
}
