import { setTimeout } from 'node:timers/promises';
import type { Locator, Page } from 'playwright-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sampleData } from '../../src/server/sample-data.ts';
import { overflow, seriousFindings, useBrowser } from '../helpers/browser.ts';
import { gate } from '../helpers/gate.ts';
import { create } from '../helpers/service.ts';
import { startWithTools } from '../helpers/tools.ts';

const open = useBrowser();

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
async function openPage(...paths: readonly string[]) {
  const service = await startPage();
  for (const path of paths) await service.call(path);
  return { service, page: (await open(service.url())).page };
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
  await setFaults(use, '[{"answer":500,"times":1}]');
  await call('/pets');
  for (let i = 0; i < 70; i++) await call('/pets?limit=1');
}

const setFaults = (use: Awaited<ReturnType<typeof startPage>>['use'], body: string) =>
  use('/faults', { method: 'PUT', body, headers: { 'Content-Type': 'application/json' } });

const rows = (page: Page) => page.locator('#requests-list tbody tr');
const row = (page: Page, text: string) => rows(page).filter({ hasText: text });
const show = (page: Page, view: string) =>
  page.getByRole('navigation').getByRole('link', { name: view }).click();
const details = (page: Page) => page.getByRole('region', { name: 'Details of the request' });
const button = (within: Page | Locator, name: string) => within.getByRole('button', { name, exact: true });
const textOf = (page: Page, selector: string) => expect.poll(() => page.locator(selector).textContent());
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
    await check('faults');
    await show(page, 'Keys');
    await page.getByText('0 of 60 left').waitFor();
    await check('keys');
    await show(page, 'Requests');
    await row(page, 'repeats the response of').getByRole('button').click();
    await page.getByText('Cannot be sent again: only the beginning of its body is recorded').waitFor();
    await check('a long body');
    await button(page, 'Close').click();
    await row(page, 'counted: 56 of 60').getByRole('button').click();
    await button(page, 'Send again').click();
    await page.getByText('This adds an animal').waitFor();
    await check('form');
    await button(page, 'Cancel').click();
    await button(page, 'Reset…').click();
    await page.getByRole('dialog').waitFor();
    await check('reset');
    expect(await page.title()).toBe('pets serve');
  });

  test('shows requests with their reasons as they arrive, filters them, and opens one', async () => {
    const { service, page } = await openPage('/pets?limit=3');
    await row(page, '/v1/pets?limit=3').waitFor();
    await service.call('/pets', create(REX));
    const created = row(page, '201: counted: 58 of 60 requests left in this minute');
    await created.waitFor();
    await page.getByLabel('Method').selectOption('POST');
    await expect.poll(() => rows(page).count()).toBe(1);
    await created.getByRole('button').click();
    const panel = details(page);
    await panel.getByText('--data-raw').waitFor();
    const text = await panel.innerText();
    expect(text).toMatch(/^POST \/v1\/pets\s+Close\s+201: counted: 58 of 60/);
    expect(text).toContain(`"categoryId": ${LARGE_ID}`);
    expect(text).toMatch(/authorization\s+\[redacted\]/);
    expect(text).toContain(`--data-raw '${REX}'`);
    expect(text).not.toContain(service.key);
    await button(page, 'Show all').click();
    await expect.poll(() => rows(page).count()).toBe(2);
    await page.getByLabel('Search').fill('"name":"xanthippe"');
    await expect.poll(() => rows(page).count()).toBe(1);
    await page.getByLabel('Search').fill('limit=3');
    await row(page, '/v1/pets?limit=3').waitFor();
    await expect.poll(() => rows(page).count()).toBe(1);
    await service.call('/pets?limit=30');
    await expect.poll(() => rows(page).count()).toBe(2);
    await service.call('/pets?limit=3000');
    await button(page, '4xx errors 1').click();
    await expect.poll(() => rows(page).count()).toBe(1);
    await row(page, '400: limit must be an integer').waitFor();
  });

  test('shows a command to try while there is no request, and the zone of its times', async () => {
    const service = await startPage();
    const { page } = await open(service.url(), { timezoneId: 'Asia/Kathmandu' });
    const base = `http://127.0.0.1:${service.port()}/v1`;
    const commands = page.getByRole('region', { name: 'Commands to try' });
    expect(await commands.innerText()).toBe(
      `PETS_BASE_URL='${base}' pets list\ncurl -H "Authorization: Bearer $PETS_API_KEY" '${base}/pets'`,
    );
    expect(await page.locator('header').innerText()).toMatch(/Times in Asia\/Kat(h)?mandu/);
    await page.getByLabel('Method').waitFor();
    await page.getByLabel('Search').fill('nothing');
    await page.getByText('No request matches the filters').waitFor();
  });

  test('keeps the rows still under the mouse and in a scrolled page, and says how many new ones wait', async () => {
    const { service, page } = await openPage(...Array<string>(40).fill('/pets?limit=1'));
    await row(page, 'limit=1').first().hover();
    const before = await rows(page).allInnerTexts();
    await service.call('/pets?limit=2');
    await service.call('/pets?limit=2');
    await page.getByText('2 new requests ↑').waitFor();
    expect(await rows(page).allInnerTexts()).toEqual(before);
    await page.locator('h1').hover();
    await row(page, 'limit=2').first().waitFor();
    await page.mouse.wheel(0, 8);
    await expect.poll(() => page.evaluate('scrollY')).toBe(8);
    await service.call('/pets?limit=4');
    await row(page, 'limit=4').waitFor();
    expect(await page.evaluate('scrollY')).toBe(8);
    await page.mouse.wheel(0, 300);
    await expect.poll(() => page.evaluate('scrollY')).toBeGreaterThan(100);
    await service.call('/pets?limit=3');
    await button(page, '1 new request ↑').click();
    await row(page, 'limit=3').waitFor();
    expect(await page.evaluate('scrollY')).toBe(0);
    // The opened request, and the request that a new rule affects, appear immediately.
    await row(page, 'limit=4').getByRole('button').click();
    await button(page, 'Send again').click();
    await row(page, 'limit=4').nth(1).waitFor();
    await button(page, 'Fail next with 503').click();
    await row(page, 'limit=1').first().hover();
    await service.call('/pets?limit=6');
    await row(page, 'limit=6').waitFor();
    await button(page, 'Close').click();
    // On narrow screens, the details take the place of the list.
    await page.setViewportSize({ width: 390, height: 400 });
    await row(page, 'limit=1').first().getByRole('button').click();
    await details(page).getByText('--path-as-is').waitFor();
    await page.evaluate('scrollTo(0, 200)');
    await service.call('/pets?limit=7');
    await button(page, '1 new request ↑').click();
    await row(page, 'limit=7').waitFor();
    expect(await details(page).count()).toBe(0);
    await page.setViewportSize({ width: 1_280, height: 800 });
    // The results of a search appear immediately, although the mouse points at a row.
    await row(page, 'limit=1').first().hover();
    await page.getByLabel('Search').focus();
    await page.keyboard.type('limit=2');
    await expect.poll(() => rows(page).count()).toBe(2);
  });

  test('shows a request while it runs, and completes its row in place', async () => {
    const latency = gate();
    onTestFinished(() => latency.open());
    const service = await startPage({
      sleep: (milliseconds, signal) =>
        milliseconds === 5_000 ? latency.opened : setTimeout(milliseconds, undefined, { signal }),
    });
    // An earlier request can have the same id.
    const sameId = { headers: { 'X-Request-Id': 'same' } };
    await service.call('/pets?limit=4', sameId);
    await setFaults(service.use, '[{"latency":5000,"times":1}]');
    const { page } = await open(service.url());
    const response = service.call('/pets?limit=4', sameId);
    await row(page, 'running: there is no response yet').hover();
    await service.call('/pets?limit=5');
    await page.getByText('1 new request ↑').waitFor();
    await row(page, 'running: there is no response yet').waitFor();
    latency.open();
    await response;
    await row(page, '58 of 60').waitFor();
    const shown = [expect.stringMatching(/limit=4.*58 of 60/s), expect.stringMatching(/limit=4.*59 of 60/s)];
    expect(await rows(page).allInnerTexts()).toEqual(shown);
  });

  test('names the origin of web pages that may not use the service, and the option for it', async () => {
    const { service, page } = await openPage();
    const headers = { 'Sec-Fetch-Site': 'cross-site', Origin: 'http://shop.example' };
    for (let i = 0; i < 2; i++) await service.call('/pets', { headers });
    await page.getByText('2 requests that any web page can send').waitFor();
    await page.getByText("--cors 'http://shop.example'").waitFor();
    expect(await rows(page).count()).toBe(0);
    // An origin that is dangerous in a shell without quotes, the origin of a file, and values that --cors does not accept.
    for (const [origin, command] of [
      ["http://a';$(reboot);'", "--cors 'http://a'\\'';$(reboot);'\\'''"],
      ['null', ''],
      ['ftp://shop.example', ''],
      ['http://shop.example/pets', ''],
      [undefined, ''],
    ] as const) {
      await service.call('/pets', {
        headers: { 'Sec-Fetch-Site': 'cross-site', ...(origin && { Origin: origin }) },
      });
      const note = page.locator('.note', { hasText: origin ?? 'unknown' });
      await note.waitFor();
      expect(await note.getByText('--cors').allInnerTexts()).toEqual(command ? [command] : []);
    }
  });

  test('has the selection and the filters in its address: for a reload, for back, and for a link', async () => {
    const service = await startPage();
    await service.call('/pets?limit=1');
    await service.call('/pets', create(REX));
    const { page } = await open(service.url());
    await row(page, '/v1/pets?limit=1').getByRole('button').click();
    await details(page).getByText('--path-as-is').waitFor();
    expect(new URL(page.url()).hash).toBe('#requests?request=1');
    const link = page.url();
    await page.goBack();
    await details(page).waitFor({ state: 'detached' });
    await page.goForward();
    await details(page).waitFor();
    await page.getByLabel('Method').selectOption('POST');
    expect(new URL(page.url()).hash).toBe('#requests?method=POST&request=1');
    await page.reload();
    await expect.poll(() => rows(page).count()).toBe(1);
    await details(page).getByText('GET /v1/pets?limit=1').waitFor();
    await page.goBack();
    await expect.poll(() => rows(page).count()).toBe(2);
    await show(page, 'Keys');
    await page.getByRole('link', { name: 'till' }).click();
    await expect.poll(() => rows(page).count()).toBe(2);
    const other = await page.context().newPage();
    await other.goto(link);
    await details(other).getByText('GET /v1/pets?limit=1').waitFor();
  });

  test('scrolls to the row of a request that a link opens, and to the top of another view', async () => {
    const { service, page } = await openPage(...Array<string>(60).fill('/pets?limit=1'));
    await rows(page).first().waitFor();
    await page.goto(`${page.url()}?request=1`);
    await details(page).waitFor();
    await expect.poll(() => page.evaluate('scrollY')).toBeGreaterThan(0);
    expect(await rows(page).last().getByRole('button').isVisible()).toBe(true);
    expect(
      await page.evaluate("document.querySelector('.opened').getBoundingClientRect().bottom < innerHeight"),
    ).toBe(true);
    await show(page, 'Keys');
    expect(await page.evaluate('scrollY')).toBe(0);
    await service.call('/pets?limit=2');
    await show(page, 'Requests');
    await row(page, 'limit=2').waitFor();
    await details(page).waitFor();
    expect(await page.evaluate('scrollY')).toBe(0);
    await page.goBack();
    await page.goBack();
    await service.call('/pets?limit=3');
    await row(page, 'limit=3').waitFor();
    expect(await page.evaluate('scrollY')).toBe(0);
  });

  test('the text of a reason can be selected without opening the request', async () => {
    const { page } = await openPage('/pets?limit=1');
    const reason = row(page, '200: counted').locator('td.column-reason');
    const { x = 0, y = 0, height = 0 } = (await reason.boundingBox()) ?? {};
    await page.mouse.move(x + 12, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + 120, y + height / 2);
    await page.mouse.up();
    expect(await page.evaluate('String(getSelection())')).toMatch(/counted/);
    expect(await details(page).count()).toBe(0);
    await page.locator('h1').click();
    await reason.click();
    await details(page).waitFor();
  });

  test('sends a request again: with an edited body, only after a question if it adds an animal, and never after a 401', async () => {
    const service = await startPage();
    await service.call('/pets', create('{"name":"Rex","categoryId":"one"}'));
    await service.call('/pets?limit=1');
    await service.call('/pets', { headers: { Authorization: 'Bearer pets_wrong' } });
    const { page } = await open(service.url());
    await row(page, 'limit=1').getByRole('button').click();
    await button(page, 'Send again').click();
    await details(page).getByText('· request 2 again').waitFor();
    await row(page, '· request 2 again').getByRole('link', { name: 'request 2' }).click();
    expect(new URL(page.url()).hash).toBe('#requests?request=2');
    await row(page, '401: ').getByRole('button').click();
    await details(page).getByText('Cannot be sent again: ').waitFor();
    expect(await button(page, 'Send again').isDisabled()).toBe(true);
    await details(page).getByText('the command sends your $PETS_API_KEY instead').waitFor();
    await row(page, '400: categoryId').getByRole('button').click();
    await button(page, 'Send again').click();
    const body = details(page).getByLabel('Body', { exact: true });
    expect(await body.inputValue()).toBe('{\n  "name": "Rex",\n  "categoryId": "one"\n}');
    expect(await page.evaluate('getComputedStyle(document.activeElement).fontFamily')).toMatch(/monospace/);
    expect(await page.evaluate('document.activeElement.name')).toBe('body');
    await body.fill(REX);
    expect((await service.requests()).requests).toHaveLength(4);
    await button(page, 'Send, and add an animal').click();
    await row(page, '201: ').filter({ hasText: 'request 1 again' }).waitFor();
    await details(page).getByText('201: ').waitFor();
  });

  test('lets the next request fail, once', async () => {
    const { service, page } = await openPage('/pets/7');
    await row(page, '/v1/pets/7').getByRole('button').click();
    await button(page, 'Fail next with 503').click();
    const note = details(page).getByText('The next GET /v1/pets/{petId} gets 503');
    await note.waitFor();
    await page.locator('.badge').waitFor();
    expect((await service.call('/pets/8')).status).toBe(503);
    await row(page, '503: your rule for GET /v1/pets/{petId}').waitFor();
    await page.locator('.badge').waitFor({ state: 'detached' });
    await note.waitFor({ state: 'detached' });
    expect((await service.call('/pets/8')).status).toBe(200);
    await details(page).getByText('Request 2 got this 503').waitFor();
    await details(page).getByRole('link', { name: 'Request 2' }).click();
    await details(page).getByText('503: your rule').waitFor();
    expect(await details(page).getByText('got this').count()).toBe(0);
    await show(page, 'Faults');
    await page.getByText('Request 2 got this 503').waitFor({ state: 'detached' });
    const placeOf = (name: string) => button(page, name).boundingBox();
    const places = await Promise.all(['Fail next with 429', 'Delay next by 3 s'].map(placeOf));
    const tab = page.getByRole('link', { name: 'Keys' });
    const tabPlace = await tab.boundingBox();
    await button(page, 'Fail next with 429').click();
    const next = page.getByText('The next request gets 429, Retry-After 2 s (rule 1)');
    await next.waitFor();
    expect(await next.getByRole('link').count()).toBe(0);
    await page.locator('.badge').waitFor();
    expect(await Promise.all(['Fail next with 429', 'Delay next by 3 s'].map(placeOf))).toEqual(places);
    expect(await tab.boundingBox()).toEqual(tabPlace);
    await service.call('/pets/9');
    await page.getByText('Request 4 got this 429').waitFor();
    await page.getByLabel('Make the next one fail').selectOption('POST /v1/pets');
    await button(page, 'Delay next by 3 s').click();
    await page.getByText('The next POST /v1/pets takes 3 s longer (rule 1)').waitFor();
    // Faults that change elsewhere are shown, too.
    await service.use('/faults', { method: 'DELETE' });
    await page.locator('.badge').waitFor({ state: 'detached' });
  });

  test('copies a command for curl, also over plain HTTP, where pages have no clipboard', async () => {
    const { service, page } = await openPage('/pets?limit=1');
    await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
    await row(page, 'limit=1').getByRole('button').click();
    await button(page, 'Copy as curl').click();
    await button(page, 'Copied').waitFor();
    await page.getByLabel('Search').focus();
    await page.keyboard.press('Control+V');
    expect(await page.getByLabel('Search').inputValue()).toContain(
      `127.0.0.1:${service.port()}/v1/pets?limit=1`,
    );
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
    await row(page, '429: the key is banned').first().getByRole('button').click();
    await details(page).getByRole('link', { name: 'Keys' }).click();
    // The times are those of the service, whose clock shows another day.
    await page.getByText(/^0 of 60 left in this minute, which ends in [1-9]\d* s$/).waitFor();
    await page.getByText(/banned until .* \(.* left\)/).waitFor();
    await button(page, 'Lift ban').click();
    await page.getByText('not banned').waitFor();
    await page.getByText('Ban of till lifted').waitFor();
    expect(await (await service.call('/pets')).json()).toMatchObject({ code: 'rate_limited' });
  });

  test('resets the store after a question in words that are true for this store', async () => {
    const service = await startPage();
    await service.call('/pets', create(REX));
    const { page } = await open(service.url());
    await button(page, 'Reset…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('67 animals').first().waitFor();
    expect(await focused(page)).toBe('Cancel');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await button(page, 'Reset…').click();
    expect(await dialog.innerText()).toMatch(/the list of requests, and faults stay.* the sample data/);
    await button(dialog, 'Delete 67 animals').click();
    await page.getByText('Store reset: 66 animals').waitFor();
  });

  test('says before a click that a store cannot be reset', async () => {
    const service = await startPage({ resettable: false });
    const { page } = await open(service.url());
    await button(page, 'Reset…').waitFor();
    expect(await button(page, 'Reset…').isDisabled()).toBe(true);
    expect(await page.locator('#reset-reason').innerText()).toContain('--resettable');
  });

  test('sets and clears faults, and shows the errors of invalid ones', async () => {
    const service = await startPage();
    const { page } = await open(service.url(), { expectedErrors: /400/ });
    await show(page, 'Faults');
    await page.getByText('No faults are injected.').waitFor();
    const rules = page.getByLabel('Rules, as a JSON array, with latency in ms');
    const set = page.getByRole('button', { name: 'Set faults' });
    const share = page.getByLabel('Requests that fail, %');
    await share.fill('1000');
    await share.hover();
    await page.mouse.wheel(0, -100);
    await set.click();
    await page.getByRole('alert').getByText('must be a number from 0 to 100').waitFor();
    expect(await share.inputValue()).toBe('1000');
    await share.fill('');
    await rules.fill('[{"answer":999}]');
    await set.click();
    await page.getByRole('alert').getByText('rule 1: answer must be one of').waitFor();
    await rules.fill('[');
    await set.click();
    await page.getByRole('alert').getByText('not valid JSON: Unexpected end').waitFor();
    await rules.fill('[{"match":{"path":"/v1/pets/9"},"answer":500}]');
    await page.getByRole('button', { name: 'Fail twice' }).click();
    await set.click();
    await page.getByText('0 of 2 times').waitFor();
    await page.getByText('/v1/pets/9').first().waitFor();
    await page.locator('.badge').waitFor();
    expect((await service.call('/pets', create('{"name":"Rex","categoryId":1}'))).status).toBe(503);
    await page.getByText('1 of 2 times').waitFor();
    await page.getByLabel('Longest latency').fill('0.001');
    await set.click();
    await page.getByText('Responses are delayed by 0.001 s.').waitFor();
    // The rules are set again, so they count from the beginning.
    await page.getByText('0 of 2 times').waitFor();
    for (let i = 0; i < 2; i++)
      expect((await service.call('/pets', create('{"name":"Rex","categoryId":1}'))).status).toBe(503);
    await page.getByText('2 of 2 times, used up').waitFor();
    await expect.poll(() => rules.inputValue()).not.toContain('503');
    await rules.fill('[]');
    await setFaults(service.use, '{"failRate":0.5}');
    await button(page, 'Discard changes').click();
    await expect.poll(() => page.getByLabel('Requests that fail, %').inputValue()).toBe('50');
    await page.getByRole('button', { name: 'Clear all' }).click();
    await page.getByText('No faults are injected.').waitFor();
    expect((await service.call('/pets', create('{"name":"Rex","categoryId":1}'))).status).toBe(201);
  });

  test('can be used with the keyboard alone', async () => {
    const { page } = await openPage('/pets?limit=3', '/pets?limit=2');
    await rows(page).first().waitFor();
    const tabTo = async (text: string) => {
      for (let i = 0; i < 40 && (await focused(page)) !== text; i++) await page.keyboard.press('Tab');
      expect(await focused(page)).toBe(text);
    };
    await tabTo('GET /v1/pets?limit=2');
    await page.keyboard.press('ArrowDown');
    expect(await focused(page)).toBe('GET /v1/pets?limit=3');
    await page.keyboard.press('Enter');
    await expect.poll(() => focused(page)).toBe('GET /v1/pets?limit=3');
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('details-title');
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('Close');
    await page.keyboard.press('Enter');
    expect(await focused(page)).toBe('GET /v1/pets?limit=3');
    await page.keyboard.press('Enter');
    await details(page).getByText('--path-as-is').waitFor();
    await page.keyboard.press('Escape');
    expect(await focused(page)).toBe('GET /v1/pets?limit=3');
    await page.keyboard.press('Home');
    expect(await focused(page)).toBe('GET /v1/pets?limit=2');
    // With open details, the arrow keys also change the request that is shown.
    await rows(page).last().getByRole('button').click();
    await page.keyboard.press('ArrowUp');
    await details(page).getByText('/v1/pets?limit=2').first().waitFor();
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
    await other.goto(used.replace(/#.*/, '#c=wrong'));
    await other.getByRole('alert').waitFor();
    await other.goto(service.url());
    await textOf(other, '#connection').toBe('Live');
  });

  test('after a restart, the page says what to do and sends nothing, until there is a new address in any tab', async () => {
    const service = await startPage();
    const { page, requests } = await open(service.url(), { expectedErrors: /401/ });
    await textOf(page, '#connection').toBe('Live');
    await page.getByLabel('Search').fill('limit=3');
    await expect.poll(() => new URL(page.url()).hash).toBe('#requests?text=limit%3D3');
    await page.evaluate("localStorage.setItem('pets-session', 'x'.repeat(43))");
    await page.reload();
    const said =
      'The server was started again, or this address is old. Open the page address that pets serve printed last.';
    await textOf(page, '[role="alert"]').toBe(said);
    expect(await page.evaluate('document.activeElement.tagName')).toBe('BODY');
    const sent = requests.length;
    await page.reload();
    await page.getByText('This page needs a new address').waitFor();
    expect(requests.slice(sent).filter((each) => /requests|faults|keys/.test(each))).toEqual([]);
    const tab = await page.context().newPage();
    await tab.goto(service.url());
    await textOf(page, '#connection').toBe('Live');
    expect(await page.getByLabel('Search').inputValue()).toBe('limit=3');
    // Another program can store a session that cannot be sent as a header.
    await page.evaluate("localStorage.setItem('pets-session', 'a\\nb \u0142')");
    await page.reload();
    await page.getByText('This page needs a new address').waitFor();
    await page.getByText('Open the page address that pets serve printed last').waitFor();
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

  test('every view reports a lost connection, and continues without a reload', async () => {
    const service = await startPage();
    const { page } = await open(service.url(), { expectedErrors: /ERR_INTERNET_DISCONNECTED|ERR_FAILED/ });
    for (const view of ['Faults', 'Keys', 'Requests']) {
      await show(page, view);
      await textOf(page, '#connection').toBe('Live');
      await page.context().setOffline(true);
      await page.getByText('The server has stopped or cannot be reached').waitFor();
      await page.context().setOffline(false);
      await textOf(page, '#connection').toBe('Live');
    }
  });
});
