package serve

// APIRoutes returns the paths of all routes of the API, as in OpenAPI.
func APIRoutes() (paths []string) {
	for _, route := range apiRoutes {
		paths = append(paths, apiPrefix+route.pattern)
	}
	return paths
}
