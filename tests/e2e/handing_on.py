"""A server between a command and its cluster: it hands questions on, and notes what was asked."""

import contextlib
import threading
import time
import urllib.error
import urllib.request
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TIMEOUT_S = 30


@contextlib.contextmanager
def handed_on(target, *, ahead_s=0):
    """Its address, and the paths that were answered so far; its clock is ahead of ours."""
    answered = []

    class HandedOn(BaseHTTPRequestHandler):
        def do_GET(self):
            asked = urllib.request.Request(target + self.path)
            if "Authorization" in self.headers:
                asked.add_header("Authorization", self.headers["Authorization"])
            try:
                with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:
                    status, body = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                status, body = error.code, error.read()
            self.send_response_only(status)
            self.send_header("Date", formatdate(time.time() + ahead_s, usegmt=True))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            answered.append(self.path)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), HandedOn)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", answered
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
