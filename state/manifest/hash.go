package manifest

import "hash/fnv"

// Hash names what the Result serves: hosts that serve the same objects, in the
// same words, have the same, whatever files they read them from.
func (r *Result) Hash() uint64 {
	var sum uint64
	for _, e := range r.effective {
		sum += e.hash()
	}
	return sum
}

// hash is that of the document and its key, worked out once in the object's
// life.
func (e *digest) hash() uint64 {
	if !e.hashed {
		h := fnv.New64a()
		for _, part := range [][]byte{[]byte(e.object.Key.String()), {0}, e.object.Raw} {
			_, _ = h.Write(part) // it never fails
		}
		e.sum, e.hashed = h.Sum64(), true
	}
	return e.sum
}
