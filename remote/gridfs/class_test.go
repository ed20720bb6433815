package gridfs

import "testing"

// A class of storage belongs to S3. MongoDB's driver would ignore it.
func TestClassIsRefused(t *testing.T) {
	for _, rawURL := range []string{"mongodb://host/db?class=GLACIER", "mongodb://host/db?bucket=b&Class="} {
		if _, err := parseLocation(rawURL, func(string) string { return "" }); err == nil {
			t.Errorf("%s: accepted", rawURL)
		}
	}
}
