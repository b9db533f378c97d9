import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';
import type { AxeResults } from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { CHROMIUM } from '../../.config/chromium.ts';
import { sampleData } from '../../src/server/mocks.ts';
import { startWithTools } from '../helpers/real-service.ts';
import { create } from '../helpers/service.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Reports violations of the content security policy to the console. */
const REPORT_VIOLATIONS = `addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
  console.error('CSP violation: ' + violatedDirective + ' ' + blockedURI));`;

// One browser for all tests. Without Chromium, they are skipped, except in `.ci/run`, where they fail.
let browser: Browser | undefined;
beforeAll(async () => {
  // The sandbox does not work for root, and is not available in many containers.
  if (existsSync(CHROMIUM))
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
});
afterAll(async () => browser?.close());
beforeEach(({ skip }) => {
  if (browser !== undefined) return;
  const reason = `Chromium is not installed at ${CHROMIUM}`;
  if (process.env['PETS_REQUIRE_CHROMIUM']) throw new Error(reason);
  skip(reason);
});

/**
 * Opens an address; `requests` are those of the page, without queries. The test fails if the page threw an error, sent a
 * request to another origin, or wrote an error to the console that does not match `expectedErrors`.
 */
async function open(
  url: string,
  { expectedErrors, ...options }: BrowserContextOptions & { expectedErrors?: RegExp } = {},
) {
  if (browser === undefined) throw new Error('The browser has not started');
  const context = await browser.newContext({ viewport: { width: 1_280, height: 800 }, ...options });
  await context.addInitScript(REPORT_VIOLATIONS);
  const page = await context.newPage();
  const { origin } = new URL(url);
  const requests: string[] = [];
  const problems: string[] = [];
  page.on('request', (request) => {
    const target = new URL(request.url());
    requests.push(`${request.method()} ${target.pathname}`);
    if (target.origin !== origin) problems.push(`request to ${target.origin}`);
  });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !expectedErrors?.test(message.text())) problems.push(message.text());
  });
  onTestFinished(async () => {
    // A route of the test may still wait for the response to a request of the page, which polls.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await context.close();
    expect(problems).toEqual([]);
  });
  await page.goto(url);
  return { page, requests };
}

/** The serious and critical findings of axe-core about a page as it is now, and headings that are not in order. */
async function seriousFindings(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate("axe.run({ resultTypes: ['violations'] })")) as AxeResults;
  return violations
    .filter(({ impact, id }) => impact === 'serious' || impact === 'critical' || id === 'heading-order')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`));
}

const HOSTILE = `<script>document.title='x'</script><img src=x onerror=alert(1)>\u202e\u0000\u0007${'x'.repeat(20_000)}`;
const LARGE_ID = '9007199254740993';
const REX = `{"name":"Xanthippe","categoryId":${LARGE_ID}}`;

/** Starts the service with its sample data; `url` is the address of its page, which works once. */
async function startPage(options: Parameters<typeof startWithTools>[0] = {}) {
  const real = await startWithTools({
    resettable: true,
    seed: async () => sampleData(),
    seedName: 'the sample data',
    sleep: (milliseconds, signal) => setTimeout(milliseconds, undefined, { signal }),
    ...options,
  });
  return { ...real, url: () => real.service().pageUrl?.() ?? '' };
}

/** Starts the service, sends requests for these paths to it, and opens its page. */
async function openPage(paths: readonly string[] = [], options: Parameters<typeof open>[1] = {}) {
  const service = await startPage();
  for (const path of paths) await service.call(path);
  return { service, page: (await open(service.url(), options)).page };
}

/** Sends requests of every kind, with hostile names, headers and paths. */
async function sendRequests({ call, use }: Awaited<ReturnType<typeof startPage>>): Promise<void> {
  await call('/pets?limit=5');
  await call('/pets', create(JSON.stringify({ name: HOSTILE, categoryId: 1 }), { 'Idempotency-Key': 'a' }));
  await call('/pets', create(JSON.stringify({ name: HOSTILE, categoryId: 1 }), { 'Idempotency-Key': 'a' }));
  await call('/pets', create(REX));
  await call(`/${encodeURIComponent(HOSTILE).slice(0, 2_000)}`, { headers: { 'X-Hostile': '<b>"\'\u00a0' } });
  await call('/pets', { headers: { Authorization: 'Bearer no' } });
  await call('/pets', { headers: { Prefer: 'code=503' } });
  await use('/faults', { method: 'PUT', body: '[{"answer":500,"times":1}]' });
  await call('/pets');
  for (let i = 0; i < 70; i++) await call('/pets?limit=1');
}

const rows = (page: Page) => page.locator('#requests-list tbody tr');
const row = (page: Page, text: string) => rows(page).filter({ hasText: text });
const show = (page: Page, view: string) =>
  page.getByRole('navigation').getByRole('link', { name: view }).click();
const search = (page: Page) => page.getByLabel('Search');
const details = (page: Page) => page.getByRole('region', { name: 'Details of the request' });
const button = (within: Page | Locator, name: string) => within.getByRole('button', { name, exact: true });
const textOf = (page: Page, selector: string) => expect.poll(() => page.locator(selector).textContent());
const overflow = (page: Page) =>
  page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
const focused = (page: Page) => page.evaluate('document.activeElement.textContent');

describe('the page', () => {
  test.each([
    ['light', 1_280],
    ['dark', 800],
    ['light', 390],
  ] as const)('is accessible and not wider than the window, %s at %i pixels', async (colorScheme, width) => {
    const service = await startPage();
    await sendRequests(service);
    const { page } = await open(service.url(), {
      colorScheme,
      viewport: { width, height: 800 },
      reducedMotion: 'reduce',
    });
    const check = async (what: string) =>
      expect([what, await seriousFindings(page), await overflow(page)]).toEqual([what, [], 0]);
    await rows(page).first().waitFor();
    await check('requests');
    await show(page, 'Faults');
    await page.getByText('1 of 1 time, used up').waitFor();
    await button(page, 'Make all 2 s slower').click();
    await page.getByText('Rule 2 is added: every request takes 2 s longer').waitFor();
    await check('faults');
    await button(page, 'Remove all faults').click();
    await page.getByText('No faults are injected.').waitFor();
    await show(page, 'Keys');
    await page.getByText('0 of 60 left').waitFor();
    await check('keys');
    await show(page, 'Requests');
    await row(page, 'repeats the response of').getByRole('button').click();
    await page.getByText('Cannot be sent again: its body was not recorded completely').waitFor();
    await check('a long body');
    await button(page, 'Close').click();
    await search(page).fill('Xanthippe');
    await expect.poll(() => rows(page).count()).toBe(1);
    await rows(page).getByRole('button').click();
    await button(page, 'Send again').click();
    await page.getByText('This can add an animal').waitFor();
    await check('form');
  });

  test('shows requests as they arrive, with the reasons of those that are not ordinary, finds them, and opens one', async () => {
    const { service, page } = await openPage(['/pets?limit=3']);
    await row(page, '/v1/pets?limit=3').waitFor();
    await expect.poll(() => page.title()).toBe(`pets serve :${service.port()}`);
    await service.call('/pets', create(REX));
    const created = row(page, 'POST');
    await created.waitFor();
    // The row has one line: no column is too narrow.
    expect((await created.boundingBox())?.height).toBeLessThan(40);
    expect((await created.locator('td').allInnerTexts()).join('|')).toMatch(
      /^201\|POST \/v1\/pets\|\d\d:\d\d:\d\d\.\d{3}\|[\d.]+ m?s\|\|till$/,
    );
    await created.getByRole('button').click();
    const panel = details(page);
    await panel.getByText('About the request').waitFor();
    await page.emulateMedia({ forcedColors: 'active' });
    const outline = "getComputedStyle(document.querySelector('.opened')).outlineStyle";
    expect(await page.evaluate(outline)).toBe('solid');
    const levels = "[...document.querySelectorAll('h1, h2, h3, h4')].map(({ tagName }) => tagName).join()";
    expect(await page.evaluate(levels)).toBe('H1,H2,H2,H3,H3,H3,H3,H3');
    const text = await panel.innerText();
    expect(text).toMatch(/^POST \/v1\/pets\s+Close\s+201 counted: 58 of 60 requests left in this minute/);
    expect(text).toMatch(/authorization\s+\[redacted\]/);
    expect(text).not.toContain(service.key);
    // Bodies come first, then headers, then the rest.
    const order = [`"categoryId": ${LARGE_ID}`, 'Headers of the request', 'About the request', 'Client'];
    expect(order.toSorted((one, other) => text.indexOf(one) - text.indexOf(other))).toEqual(order);
    await search(page).fill('"name":"xanthippe"');
    await expect.poll(() => rows(page).count()).toBe(1);
    await search(page).fill('limit=3');
    await row(page, '/v1/pets?limit=3').waitFor();
    await expect.poll(() => rows(page).count()).toBe(1);
    await service.call('/pets?limit=3000&status=gone');
    await button(page, '4xx errors 1').click();
    await expect.poll(() => rows(page).count()).toBe(1);
    await row(page, 'limit must be an integer from 1 to 100; status must be one of').waitFor();
    await expect.poll(() => page.title()).toBe(`1 error · pets serve :${service.port()}`);
  });

  test('pauses the list, but not the search, continues it without a gap, and clears it', async () => {
    const { service, page } = await openPage(['/pets?limit=1']);
    await row(page, 'limit=1').waitFor();
    await button(page, 'Pause').click();
    expect(await button(page, 'Pause').getAttribute('aria-pressed')).toBe('true');
    await service.call('/pets?limit=2');
    await show(page, 'Keys');
    await page.getByText('58 of 60 left').waitFor();
    await show(page, 'Requests');
    expect(await rows(page).count()).toBe(1);
    await search(page).fill('limit=2');
    await row(page, 'limit=2').waitFor();
    await search(page).fill('');
    await expect.poll(() => rows(page).count()).toBe(2);
    await service.call('/pets?limit=3');
    await button(page, 'Pause').click();
    await expect.poll(() => rows(page).count()).toBe(3);
    await button(page, 'Clear').click();
    await page.getByText('The list is cleared').waitFor();
    expect(await focused(page)).toBe('Clear');
    await service.call('/pets?limit=4');
    await row(page, 'limit=4').waitFor();
    expect(await rows(page).count()).toBe(1);
  });

  test('has the selection and the filters in its address, for a reload and for back', async () => {
    const { page } = await openPage(['/pets?limit=1', '/pets?limit=2']);
    await row(page, '/v1/pets?limit=1').getByRole('button').click();
    await details(page).getByText('About the request').waitFor();
    expect(new URL(page.url()).hash).toBe('#requests?request=1');
    await page.goBack();
    await details(page).waitFor({ state: 'detached' });
    await page.goForward();
    await details(page).waitFor();
    await button(page, '4xx errors 0').click();
    expect(new URL(page.url()).hash).toBe('#requests?status=rejected&request=1');
    await page.reload();
    await details(page).getByText('GET /v1/pets?limit=1').waitFor();
    await page.getByText('No request matches the filters').waitFor();
  });

  test('sends a request again: with an edited body, only after a question if it adds an animal, and never after a 401', async () => {
    const service = await startPage();
    await service.call('/pets', create('{"name":"Rex","categoryId":"one"}'));
    await service.call('/pets?limit=1');
    await service.call('/pets', { headers: { Authorization: 'Bearer pets_wrong' } });
    const { page } = await open(service.url());
    await row(page, 'limit=1').getByRole('button').click();
    await button(page, 'Send again').click();
    await page.getByText('The request was sent again').waitFor();
    await details(page).getByText('request 2, sent again').waitFor();
    await row(page, '401').getByRole('button').click();
    await details(page).getByText('Cannot be sent again: ').waitFor();
    expect(await button(page, 'Send again').isDisabled()).toBe(true);
    await row(page, 'categoryId').getByRole('button').click();
    await button(page, 'Send again').click();
    const body = details(page).getByLabel('Body', { exact: true });
    expect(await body.inputValue()).toBe('{\n  "name": "Rex",\n  "categoryId": "one"\n}');
    await body.fill(REX);
    expect((await service.requests()).requests).toHaveLength(4);
    await button(page, 'Send').click();
    await row(page, 'request 1, sent again').filter({ hasText: '201' }).waitFor();
    await details(page).getByText('counted: ').waitFor();
  });

  test('lets the next request fail, once, and says which rule decided', async () => {
    const { service, page } = await openPage(['/pets/7']);
    await row(page, '/v1/pets/7').getByRole('button').click();
    await button(page, 'Fail next with 503').click();
    await page.getByText('Rule 1 is added: GET /v1/pets/{petId} gets 503, Retry-After 2 s').waitFor();
    await page.locator('nav .rejected').waitFor();
    expect((await service.call('/pets/8')).status).toBe(503);
    await row(page, 'fault rule 1').waitFor();
    await page.locator('nav .rejected').waitFor({ state: 'detached' });
    expect((await service.call('/pets/8')).status).toBe(200);
    await button(page, 'Delay next by 3 s').click();
    await page.getByText('Rule 2 is added: GET /v1/pets/{petId} takes 3 s longer').waitFor();
    await service.call('/pets/9');
    await row(page, 'delayed by 3.00 s').getByRole('link', { name: 'rule 2' }).click();
    await page.getByText('1 of 1 time, used up').waitFor();
    // Faults that change elsewhere are shown, too.
    await service.use('/faults', { method: 'DELETE' });
    await page.getByText('No faults are injected.').waitFor();
  });

  test('copies a command for curl', async () => {
    const { service, page } = await openPage(['/pets?limit=1']);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await row(page, 'limit=1').getByRole('button').click();
    await button(page, 'Copy as curl').click();
    await page.getByText('The command is copied.').waitFor();
    const copied = await page.evaluate('navigator.clipboard.readText()');
    expect(copied).toContain(`127.0.0.1:${service.port()}/v1/pets?limit=1`);
  });

  test('shows the requests that are left, and lifts a ban', async () => {
    const service = await startPage();
    for (let i = 0; i < 61; i++) await service.call('/pets?limit=1');
    for (let i = 0; i < 10; i++) {
      // Requests within a second after a 429 do not count towards a ban.
      service.clock.advance(1_000);
      await service.call('/pets?limit=2');
    }
    const { page } = await open(service.url());
    await row(page, 'the key is banned').first().getByRole('button').click();
    await details(page).getByRole('link', { name: 'Keys' }).click();
    // The times are those of the service, whose clock shows another day.
    await page.getByText(/^0 of 60 left, resets in [1-9]\d* s$/).waitFor();
    await page.getByText(/banned until .* \(.* left\)/).waitFor();
    await button(page, 'Lift ban').click();
    await page.getByText('not banned').waitFor();
    await page.getByText(/of till is lifted; the limit of this key is used up for another \d+ s$/).waitFor();
    // The button is gone, so the focus is on what has happened.
    expect(await page.evaluate('document.activeElement.id')).toBe('message');
    expect(await (await service.call('/pets')).json()).toMatchObject({ code: 'rate_limited' });
  });

  test('resets the store after a question in words that are true for this store, or says without one why not', async () => {
    const { page: other } = await open((await startPage({ resettable: false })).url());
    await button(other, 'Reset…').click();
    await other.getByRole('alert').getByText('--resettable').waitFor();
    const { page } = await openPage();
    const questions: string[] = [];
    page.on('dialog', async (dialog) => {
      questions.push(dialog.message());
      await (questions.length === 1 ? dialog.dismiss() : dialog.accept());
    });
    await button(page, 'Reset…').click();
    await expect.poll(() => questions.length).toBe(1);
    expect(questions[0]).toMatch(/^This deletes 66 animals .* and faults stay.* the sample data/);
    await button(page, 'Reset…').click();
    await page.getByText('The store is reset: 66 animals').waitFor();
    expect(questions).toHaveLength(2);
  });

  test('adds one fault rule at a time, removes one or all, and shows the errors of invalid ones', async () => {
    const { service, page } = await openPage([], { expectedErrors: /400/ });
    await show(page, 'Faults');
    const times = page.getByLabel('Times');
    await times.fill('x');
    await button(page, 'Add rule').click();
    await page.getByRole('alert').getByText('times must be an integer from 1 to').waitFor();
    await times.fill('2');
    await page.locator('[name="operation"]').selectOption('POST /v1/pets');
    await page.getByLabel('Latency, s').fill('0,001');
    await page.keyboard.press('Enter');
    await page.getByText('Rule 1 is added: POST /v1/pets takes 0.001 s longer and gets 503').waitFor();
    await page.getByText('0 of 2 times').waitFor();
    const add = async () => (await service.call('/pets', create(REX))).status;
    expect(await add()).toBe(503);
    await page.getByText('1 of 2 times').waitFor();
    await page.getByLabel('Status').selectOption('429');
    await times.fill('');
    await button(page, 'Add rule').click();
    await page.getByText('Rule 2 is added').waitFor();
    await button(page, 'Remove rule 2').click();
    await page.getByText('Rule 2 is removed').waitFor();
    // The other rule has not been armed again.
    expect([await add(), await add()]).toEqual([503, 201]);
    await page.getByText('2 of 2 times, used up').waitFor();
    await button(page, 'Remove all faults').click();
    await page.getByText('No faults are injected.').waitFor();
    expect(await add()).toBe(201);
  });

  test('can be used with the keyboard alone', async () => {
    const { page } = await openPage(['/pets?limit=3', '/pets?limit=2']);
    await rows(page).first().waitFor();
    const tabTo = async (text: string) => {
      for (let i = 0; i < 40 && (await focused(page)) !== text; i++) await page.keyboard.press('Tab');
      expect(await focused(page)).toBe(text);
    };
    await tabTo('GET /v1/pets?limit=2');
    for (const [key, text] of [
      ['ArrowDown', 'GET /v1/pets?limit=3'],
      ['Enter', 'GET /v1/pets?limit=3'],
      ['Tab', 'Close'],
      ['Enter', 'GET /v1/pets?limit=3'],
    ] as const) {
      await page.keyboard.press(key);
      await expect.poll(() => focused(page)).toBe(text);
    }
    await page.keyboard.press('Enter');
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('details-title');
    await page.keyboard.press('Escape');
    expect(await focused(page)).toBe('GET /v1/pets?limit=3');
    await page.keyboard.press('Enter');
    await page.goBack();
    await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('MAIN');
    await page.locator('h1').click();
    await tabTo('Keys');
    await page.keyboard.press('Enter');
    await page.locator('#keys-view').getByText('till').waitFor();
  });
});

describe('the connection of the page', () => {
  test('an address works once, for all tabs of one browser', async () => {
    const service = await startPage();
    const used = service.url();
    const { page } = await open(used);
    await textOf(page, '#connection').toBe('Live');
    expect(page.url()).toBe(used.replace(/#.*/, '#requests'));
    const tab = await page.context().newPage();
    await tab.goto(page.url());
    await textOf(tab, '#connection').toBe('Live');
    const { page: other } = await open(used, { expectedErrors: /401/ });
    await other.getByRole('alert').getByText('this address is old').waitFor();
    expect(await seriousFindings(other)).toEqual([]);
    expect(other.url()).not.toContain('#');
  });

  test('after a restart, the page says what to do and sends nothing, until there is a new address in any tab', async () => {
    const service = await startPage();
    const { page, requests } = await open(service.url(), { expectedErrors: /401/ });
    await textOf(page, '#connection').toBe('Live');
    await page.evaluate("localStorage.setItem('pets-session', 'x'.repeat(43))");
    await page.reload();
    await textOf(page, '[role="alert"]').toMatch(
      /^The server was started again, .* pets serve printed last\.$/,
    );
    const sent = requests.length;
    await page.reload();
    await page.getByText('This page needs a new address').waitFor();
    expect(requests.slice(sent).filter((each) => /requests|faults|keys/.test(each))).toEqual([]);
    const tab = await page.context().newPage();
    await tab.goto(service.url());
    await textOf(page, '#connection').toBe('Live');
  });

  test('every view reports a lost connection, and continues without a reload', async () => {
    const service = await startPage();
    const { page } = await open(service.url(), { expectedErrors: /ERR_INTERNET_DISCONNECTED|ERR_FAILED/ });
    for (const view of ['Faults', 'Keys', 'Requests']) {
      await show(page, view);
      await textOf(page, '#connection').toBe('Live');
      await page.context().setOffline(true);
      await page.getByText('The server does not respond').waitFor();
      await page.context().setOffline(false);
      await textOf(page, '#connection').toBe('Live');
    }
  });
});
