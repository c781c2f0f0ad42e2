"""The HTTP/2 connection of the backup and reader protocols, as a remote backup server speaks it."""

import asyncio
import json
from urllib.parse import parse_qsl, urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, WindowUpdated
from h2.settings import SettingCodes

from tests.support.rbs_datastore import Refused

WINDOW_BYTES, FRAME_BYTES = 32 * 1024**2, 4 * 1024**2


class Http2Session:
    def __init__(self, server, reader, writer, session):
        self.server, self.reader, self.writer, self.session = server, reader, writer, session
        self.protocol = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.streams, self.pending = {}, {}

    async def run(self, received):
        self.protocol.initiate_connection()
        sizes = {SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES, SettingCodes.MAX_FRAME_SIZE: FRAME_BYTES}
        self.protocol.update_settings(sizes)
        self.protocol.increment_flow_control_window(WINDOW_BYTES)
        while True:
            for event in self.protocol.receive_data(received) if received else ():
                await self.take(event)
            self.send_pending()
            self.writer.write(self.protocol.data_to_send())
            await self.writer.drain()
            received = await self.reader.read(65536)
            if not received:
                return

    async def take(self, event):
        if isinstance(event, RequestReceived):
            self.streams[event.stream_id] = dict(event.headers), bytearray()
        elif isinstance(event, DataReceived):
            self.streams[event.stream_id][1].extend(event.data)
            self.protocol.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            await asyncio.sleep(self.server.delay)
            self.answer(event.stream_id, *self.streams.pop(event.stream_id))
        elif isinstance(event, WindowUpdated):
            self.send_pending()

    def answer(self, stream, headers, body):
        target = urlsplit(headers[":path"])
        path, query = target.path.strip("/"), dict(parse_qsl(target.query))
        self.server.requests.append((headers[":method"], path))
        if path == self.server.cut_at:
            raise ConnectionResetError
        if path == "fixed_chunk" and self.server.chunks_until_cut is not None:
            if self.server.chunks_until_cut == 0:
                raise ConnectionResetError
            self.server.chunks_until_cut -= 1
        try:
            result, status = self.session.handle(headers[":method"], path, query, bytes(body)), "200"
            content = result if isinstance(result, bytes) else json.dumps({"data": result}).encode()
            content = self.server.change_content(path, content)
        except Refused as error:
            content, status = error.text.encode(), str(error.status)
        self.protocol.send_headers(stream, [(":status", status)])
        self.pending[stream] = content

    def send_pending(self):
        """Send what the windows of the client allow."""
        for stream, content in list(self.pending.items()):
            while True:
                size = min(self.protocol.local_flow_control_window(stream), self.protocol.max_outbound_frame_size)
                if size <= 0 and content:
                    break
                part, content = content[:size], content[size:]
                self.protocol.send_data(stream, part, end_stream=not content)
                if not content:
                    break
            if content:
                self.pending[stream] = content
            else:
                del self.pending[stream]
