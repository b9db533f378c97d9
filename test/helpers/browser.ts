import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished } from 'vitest';
import { CHROMIUM } from '../../.config/chromium.ts';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Reports violations of the content security policy to the console. */
const REPORT_VIOLATIONS = `addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
  console.error('CSP violation: ' + violatedDirective + ' ' + blockedURI));`;

/**
 * Starts one browser for all tests of a file. Without Chromium, the tests are skipped, except in `.ci/run`, where they
 * fail. Returns a function that opens an address; `requests` are those of the page, without queries. A test fails if the page threw an error, sent a request to another
 * origin, or wrote an error to the console that does not match `expectedErrors`.
 */
export function useBrowser(): (
  url: string,
  options?: BrowserContextOptions & { expectedErrors?: RegExp },
) => Promise<{ page: Page; requests: string[] }> {
  const isInstalled = existsSync(CHROMIUM);
  let browser: Browser | undefined;
  beforeAll(async () => {
    if (!isInstalled) return;
    // The sandbox does not work for root, and is not available in many containers.
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  });
  afterAll(async () => browser?.close());
  beforeEach(({ skip }) => {
    if (isInstalled) return;
    const reason = `Chromium is not installed at ${CHROMIUM}`;
    if (process.env['PETS_REQUIRE_CHROMIUM']) throw new Error(reason);
    skip(reason);
  });

  return async (url, { expectedErrors, ...options } = {}) => {
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
  };
}

/** The serious and critical findings of axe-core about a page as it is now. */
export async function seriousFindings(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate("axe.run({ resultTypes: ['violations'] })")) as AxeResults;
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`));
}
