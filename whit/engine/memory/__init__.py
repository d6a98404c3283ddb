"""Where nodes meet their memory: buffers behind BUFFER nodes, views of them, who holds them, data in and out."""
