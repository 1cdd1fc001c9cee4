package cli

import "github.com/spf13/cobra"

func (a *app) sweep() *cobra.Command   { return &cobra.Command{Use: "sweep"} }
func (a *app) compare() *cobra.Command { return &cobra.Command{Use: "compare"} }
