import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { sampleData } from '../../src/server/sample-data.ts';
import { overflow, seriousFindings, useBrowser } from '../helpers/browser.ts';
import { create } from '../helpers/service.ts';
import { startWithTools } from '../helpers/tools.ts';

const open = useBrowser();

const VIEWS = ['requests', 'faults', 'keys'] as const;

const HOSTILE = `<script>document.title='x'</script><img src=x onerror=alert(1)>\u202e\u0000\u0007${'x'.repeat(20_000)}`;
const LARGE_ID = '9007199254740993';

/** Starts the service with its sample data; `url` is the address of its page. */
async function startPage(options: Parameters<typeof startWithTools>[0] = {}) {
  const real = await startWithTools({ resettable: true, seed: async () => sampleData(), ...options });
  return { ...real, url: () => real.service().pageUrl?.() ?? '' };
}

/** Sends requests of every kind, with hostile names, headers and paths. */
async function sendRequests({ call, use }: Awaited<ReturnType<typeof startPage>>): Promise<void> {
  await call('/pets?limit=5');
  await call('/pets', create(JSON.stringify({ name: HOSTILE, categoryId: 1 }), { 'Idempotency-Key': 'a' }));
  await call('/pets', create(JSON.stringify({ name: HOSTILE, categoryId: 1 }), { 'Idempotency-Key': 'a' }));
  await call('/pets', create(`{"name":"Large","categoryId":${LARGE_ID}}`));
  await call(`/${encodeURIComponent(HOSTILE).slice(0, 2_000)}`, { headers: { 'X-Hostile': '<b>"\'\u00a0' } });
  await call('/pets', { headers: { Authorization: 'Bearer no' } });
  await call('/pets', { headers: { Prefer: 'code=503' } });
  await use('/faults', {
    method: 'PUT',
    body: '[{"answer":500,"times":1}]',
    headers: { 'Content-Type': 'application/json' },
  });
  await call('/pets');
  for (let i = 0; i < 70; i++) await call('/pets?limit=1');
}

const rows = (page: Page) => page.locator('#requests-list tbody tr');
const show = (page: Page, view: string) =>
  page.getByRole('navigation').getByRole('link', { name: view }).click();
const details = (page: Page) => page.getByRole('region', { name: 'Details of the request' });
const textOf = (page: Page, selector: string) => expect.poll(() => page.locator(selector).textContent());

describe('the page', () => {
  test.each([
    ['light', 1_280],
    ['dark', 1_280],
    ['light', 390],
    ['dark', 390],
  ] as const)('is accessible and not wider than the window, %s at %i pixels', async (colorScheme, width) => {
    const service = await startPage();
    await sendRequests(service);
    const { page } = await open(service.url(), {
      colorScheme,
      viewport: { width, height: 800 },
      reducedMotion: 'reduce',
    });
    await rows(page).first().waitFor();
    for (const view of VIEWS) {
      await page.goto(`${page.url().split('#')[0]}#${view}`);
      await page.locator(`#${view}-view`).waitFor();
      if (view === 'keys') await page.getByText('per minute').first().waitFor();
      expect([view, await seriousFindings(page), await overflow(page)]).toEqual([view, [], 0]);
    }
    await show(page, 'Requests');
    await rows(page).filter({ hasText: 'replayed' }).getByRole('button').click();
    await page.getByText('Send it again').waitFor();
    expect([await seriousFindings(page), await overflow(page)]).toEqual([[], 0]);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Reset…' }).click();
    expect([await seriousFindings(page), await overflow(page)]).toEqual([[], 0]);
    expect(await page.title()).toBe('pets serve');
  });

  test('shows requests as they arrive, filters them, and opens one', async () => {
    const service = await startPage();
    await service.call('/pets?limit=3');
    const { page } = await open(service.url());
    expect(page.url()).not.toContain('pets_t');
    await rows(page).filter({ hasText: '/v1/pets?limit=3' }).waitFor();
    const body = `{"name":"Rex","categoryId":${LARGE_ID}}`;
    await service.call('/pets', create(body));
    const created = rows(page).filter({ hasText: '201' });
    await created.waitFor();
    await page.getByLabel('Method').selectOption('POST');
    await expect.poll(() => rows(page).count()).toBe(1);
    await created.getByRole('button').click();
    const panel = details(page);
    await panel.getByText('Send it again').waitFor();
    const text = await panel.innerText();
    expect(text).toContain(`"categoryId": ${LARGE_ID}`);
    expect(text).toContain('Counted against the rate limit.');
    expect(text).toMatch(/authorization\s+\[redacted\]/);
    expect(text).toContain(`--data-raw '${body}'`);
    expect(text).not.toContain(service.key);
    await page.getByRole('button', { name: 'Show all' }).click();
    await expect.poll(() => rows(page).count()).toBe(2);
    await page.getByLabel('Search').fill('limit=3');
    await expect.poll(() => rows(page).count()).toBe(1);
  });

  test('can be paused, and the list can be cleared', async () => {
    const service = await startPage();
    const { page } = await open(service.url());
    await service.call('/pets?limit=1');
    await rows(page).first().waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await textOf(page, '#connection').toBe('Paused');
    await service.call('/pets?limit=2');
    await page.getByRole('button', { name: 'Clear list' }).click();
    await expect.poll(() => rows(page).count()).toBe(0);
    await page.getByRole('button', { name: 'Pause' }).click();
    await rows(page).filter({ hasText: 'limit=2' }).waitFor();
    expect(await rows(page).count()).toBe(1);
  });

  test('resets the inventory after a confirmation', async () => {
    const service = await startPage();
    await service.call('/pets', create('{"name":"Rex","categoryId":1}'));
    const { page } = await open(service.url());
    await page.getByRole('button', { name: 'Reset…' }).click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Reset…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reset', exact: true }).click();
    await textOf(page, '#announcer').toContain('66 animals');
  });

  test('reports that a store cannot be reset', async () => {
    const service = await startPage({ resettable: false });
    const { page } = await open(service.url(), { expectedErrors: /403/ });
    await page.getByRole('button', { name: 'Reset…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reset', exact: true }).click();
    await page.getByRole('alert').getByText('cannot be reset').waitFor();
  });

  test('sets and clears faults, and shows the errors of invalid ones', async () => {
    const service = await startPage();
    const { page } = await open(service.url(), { expectedErrors: /400/ });
    await show(page, 'Faults');
    await page.getByText('No faults are injected.').waitFor();
    const rules = page.getByLabel('Rules, as a JSON array');
    const set = page.getByRole('button', { name: 'Set faults' });
    await rules.fill('[{"answer":999}]');
    await set.click();
    await page.getByRole('alert').getByText('answer').waitFor();
    await rules.fill('[');
    await set.click();
    await page.getByRole('alert').getByText('not valid JSON').waitFor();
    await page.getByRole('button', { name: 'Fail twice' }).click();
    await set.click();
    await page.getByText('0 of 2 times').waitFor();
    await page.locator('#faults-badge').waitFor();
    expect((await service.call('/pets', create('{"name":"Rex","categoryId":1}'))).status).toBe(503);
    await page.getByText('1 of 2 times').waitFor();
    await show(page, 'Requests');
    await rows(page).filter({ hasText: 'injected fault' }).waitFor();
    await show(page, 'Faults');
    await page.getByRole('button', { name: 'Clear all' }).click();
    await page.getByText('No faults are injected.').waitFor();
    expect((await service.call('/pets', create('{"name":"Rex","categoryId":1}'))).status).toBe(201);
  });

  test('can be used with the keyboard alone', async () => {
    const service = await startPage();
    await service.call('/pets?limit=3');
    const { page } = await open(service.url());
    await rows(page).first().waitFor();
    const focused = () => page.evaluate('document.activeElement.textContent');
    const tabTo = async (text: string) => {
      for (let i = 0; i < 40 && (await focused()) !== text; i++) await page.keyboard.press('Tab');
      expect(await focused()).toBe(text);
    };
    await tabTo('/v1/pets?limit=3');
    await page.keyboard.press('Enter');
    await details(page).waitFor();
    await expect.poll(focused).toBe('200 GET /v1/pets?limit=3');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('Close');
    await page.keyboard.press('Enter');
    expect(await focused()).toBe('/v1/pets?limit=3');
    await page.keyboard.press('Enter');
    await details(page).getByText('Send it again').waitFor();
    await page.keyboard.press('Escape');
    expect(await focused()).toBe('/v1/pets?limit=3');
    await page.locator('h1').click();
    await tabTo('Keys');
    await page.keyboard.press('Enter');
    await page.locator('#keys-view').getByText('till').waitFor();
  });
});

describe('the connection of the page', () => {
  test('two pages and a server with --cors: both show the same requests', async () => {
    const service = await startPage({ cors: ['http://localhost:5173'] });
    const pages = [await open(service.url()), await open(service.url())];
    await service.call('/pets?limit=7');
    for (const { page } of pages) await rows(page).filter({ hasText: 'limit=7' }).waitFor();
  });

  test('with an old token, the page stops all requests, and continues with the token or a new address', async () => {
    const service = await startPage();
    await service.call('/pets?limit=7');
    const address = service.url().replace(/#.*/, '');
    const { page, requests } = await open(`${address}#c=pets_told`, { expectedErrors: /401/ });
    await page.getByText('This address is wrong, or from an earlier start').waitFor();
    const sent = [...requests];
    await page.reload();
    await page.getByText('This page needs a token').waitFor();
    expect(requests.slice(sent.length).filter((each) => each.includes('/requests'))).toEqual([]);
    expect(await seriousFindings(page)).toEqual([]);
    await page.getByLabel('Token', { exact: true }).fill(service.token());
    await page.getByRole('button', { name: 'Connect' }).click();
    await rows(page).filter({ hasText: 'limit=7' }).waitFor();
    await page.goto(`${address}#c=pets_told`);
    await page.getByText('This address is wrong, or from an earlier start').waitFor();
    await page.goto(service.url());
    await rows(page).filter({ hasText: 'limit=7' }).waitFor();
    expect(page.url()).toBe(address);
  });

  test('a hidden page asks for nothing', async () => {
    const service = await startPage();
    const { page, requests } = await open(service.url());
    await textOf(page, '#connection').toBe('Live');
    const setHidden = (isHidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
         document.dispatchEvent(new Event('visibilitychange'))`,
      );
    await setHidden(true);
    const sent = requests.length;
    for (let i = 0; i < 5; i++) await service.call(`/pets?limit=${i + 1}`);
    expect(requests.length).toBe(sent);
    await setHidden(false);
    await expect.poll(() => rows(page).count()).toBe(5);
  });

  test('a page that is open does not delay a stop, and reports it', async () => {
    const service = await startPage();
    const { page } = await open(service.url(), {
      expectedErrors: /ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/,
    });
    await textOf(page, '#connection').toBe('Live');
    // The grace period would end after the timeout of the test.
    await service.service().stop(600_000);
    await textOf(page, '#connection').toContain('stopped or cannot be reached');
  });

  test('requests that arrive faster than the page shows them are shown in the end', async () => {
    const service = await startPage();
    const { page } = await open(service.url());
    await textOf(page, '#connection').toBe('Live');
    await service.call('/pets?limit=2');
    await rows(page).getByRole('button').focus();
    for (let i = 0; i < 30; i++)
      await Promise.all(Array.from({ length: 50 }, () => service.call('/pets?limit=1')));
    await service.call('/pets?limit=99');
    await rows(page).filter({ hasText: 'limit=99' }).waitFor();
    await textOf(page, '#requests-list .summary').toContain('1,000 requests');
    expect(await rows(page).count()).toBe(200);
    // The row with the focus has left the list.
    expect(await rows(page).locator('button:focus').innerText()).toBe('/v1/pets?limit=1');
  });
});
