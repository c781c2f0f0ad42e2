// Receives webhooks and refuses what is not signed. It needs nothing but Node.js.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = process.env.WEBHOOK_SECRET;

// Compares over the bytes as they came, before anything reads them, in constant time.
function isSigned(body, signature) {
  const expected = Buffer.from("sha256=" + createHmac("sha256", secret).update(body).digest("hex"));
  const given = Buffer.from(signature ?? "");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const body = Buffer.concat(parts);
    if (!isSigned(body, request.headers["x-signature-256"])) return response.writeHead(401).end();
    const { event } = JSON.parse(body);
    console.log(event.id, event.kind); // an id that you have seen before is a repeat
    response.writeHead(200).end();
  });
});
server.listen(process.env.PORT ?? 8080, "127.0.0.1");
