// Follows the links of all pages over one keep-alive connection, and writes the bodies unchanged.
import { Client } from 'undici';

const { origin, pathname } = new URL(process.env.PETS_BASE_URL);
const client = new Client(origin);
const headers = { Authorization: `Bearer ${process.env.PETS_API_KEY}` };
let path = `${pathname}/pets?limit=100`;
while (path) {
  const reply = await client.request({ path, method: 'GET', headers });
  process.stdout.write(`${await reply.body.text()}\n`);
  path = /<([^>]*)>; rel="next"/.exec(reply.headers.link)?.[1];
}
await client.close();
