package cli

import "github.com/spf13/cobra"

func (a *app) draw() *cobra.Command    { return &cobra.Command{Use: "draw"} }
func (a *app) play() *cobra.Command    { return &cobra.Command{Use: "play"} }
func (a *app) sweep() *cobra.Command   { return &cobra.Command{Use: "sweep"} }
func (a *app) explore() *cobra.Command { return &cobra.Command{Use: "explore"} }
func (a *app) compare() *cobra.Command { return &cobra.Command{Use: "compare"} }
