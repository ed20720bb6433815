package volume

import "context"

func (s *Store) salvage(ctx context.Context) {}
