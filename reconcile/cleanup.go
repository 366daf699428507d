package reconcile

import (
	"context"
	"fmt"
	"slices"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
)

// Cleanup removes our tables of both families. That they are not there is no
// error. A family that has been switched off since may still have one.
func Cleanup(ctx context.Context) error {
	for _, f := range []nft.Family{nft.IPv4, nft.IPv6} {
		k, err := nft.Open(f, schema, host.Generation)
		if err == nil {
			err = k.Cleanup(ctx)
		}
		if err != nil && slices.Contains(families(), f) {
			return fmt.Errorf("table %s %s: %w", f, nft.TableName, err)
		}
	}
	return nil
}
