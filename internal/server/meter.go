package server

import "net"

func newMeter(c net.Conn, _ *Server) net.Conn { return c }
