// Takes .github/page.png, the picture of the page in the README, with Chromium. Part of `npm run picture`.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';
import { CHROMIUM } from './chromium.ts';

const ROOT = join(import.meta.dirname, '..');
const PICTURE = join(ROOT, '.github', 'page.png');

const args = ['serve', '--ephemeral', '--seed', '--no-profile', '--port', '0', '--json', '--plan', 'free'];
const server = spawn(process.execPath, [join(ROOT, 'dist', 'pets.js'), ...args], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
try {
  const [line] = await once(createInterface(server.stdout), 'line');
  const { url, key, token, page } = JSON.parse(line) as Record<'url' | 'key' | 'token' | 'page', string>;
  await sendRequests(url, key, token);
  await takePicture(page);
} finally {
  server.kill();
}

async function sendRequests(url: string, key: string, token: string): Promise<void> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const get = (path: string, more: Record<string, string> = {}) =>
    fetch(url + path, { headers: { ...headers, ...more } });
  const add = (name: string, more: Record<string, string> = {}) =>
    fetch(`${url}/pets`, {
      method: 'POST',
      headers: { ...headers, ...more },
      body: JSON.stringify({ name, categoryId: 1 }),
    });
  for (let i = 0; i < 54; i++) await get(i % 5 === 0 ? '/pets?status=available&limit=20' : `/pets/${i + 1}`);
  await get('/store/orders');
  await get('/pets/99');
  const faults = JSON.stringify([{ match: { method: 'POST' }, answer: 503, times: 1, retryAfter: 1 }]);
  await fetch(new URL('/faults', url), {
    method: 'PUT',
    headers: { ...headers, Authorization: `Bearer ${token}` },
    body: faults,
  });
  const idempotencyKey = { 'Idempotency-Key': '"7f0c"' };
  for (let i = 0; i < 3; i++) await add('Rex the Second', idempotencyKey);
  await add('Minka', { Authorization: 'Bearer pets_wrong' });
  await get('/pets', { Prefer: 'code=500' });
  await get('/pets?limit=0');
  for (let i = 0; i < 2; i++) await get(`/pets/${i + 1}`);
}

async function takePicture(address: string): Promise<void> {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage({ viewport: { width: 1_280, height: 760 } });
    await page.goto(address);
    await page.getByRole('row').filter({ hasText: 'fault rule' }).first().getByRole('button').click();
    await page.getByRole('button', { name: 'Send again' }).waitFor();
    await page.mouse.move(0, 0);
    await page.screenshot({ path: PICTURE });
    console.log(`written: ${PICTURE}`);
  } finally {
    await browser.close();
  }
}
