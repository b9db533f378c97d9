import { notFound } from './errors.ts';
import type { PageFile } from './page-files.ts';
import { pathOf } from './request/input.ts';
import type { Handler, HeaderLines } from './response.ts';

const SECURITY_HEADERS: HeaderLines = [
  'Content-Security-Policy',
  [
    "default-src 'none'",
    ...['script-src', 'style-src', 'img-src', 'connect-src'].map((directive) => `${directive} 'self'`),
    ...['base-uri', 'form-action', 'frame-ancestors'].map((directive) => `${directive} 'none'`),
    "require-trusted-types-for 'script'",
  ].join('; '),
  ...['Cross-Origin-Opener-Policy', 'same-origin'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
  ...['Referrer-Policy', 'no-referrer'],
  ...['X-Content-Type-Options', 'nosniff'],
];

/** Returns a function that sends a file of the page. The files are public: they contain no data of the service. */
export function createPage(): Handler {
  let files: Promise<ReadonlyMap<string, PageFile>> | undefined;

  return async ({ url = '', headers: requested }) => {
    // Load the files only when the page is opened, for a faster start.
    files ??= import('./page-files.ts')
      .then(({ readPageFiles }) => readPageFiles())
      .catch((error) => {
        // The failure can be temporary, for example if too many files are open.
        files = undefined;
        throw error;
      });
    const file = (await files).get(pathOf(url));
    if (file === undefined) throw notFound();
    const { contentType, cacheControl, etag, body, gzipped } = file;
    const headers = [
      ...SECURITY_HEADERS,
      ...['Cache-Control', cacheControl, 'ETag', etag, 'Vary', 'Accept-Encoding'],
    ];
    if (isListed(requested['if-none-match'], etag)) return { status: 304, headers, body: '' };
    const content = { status: 200, contentType, encoding: 'latin1' } as const;
    if (!isListed(requested['accept-encoding'], 'gzip')) return { ...content, headers, body };
    return { ...content, headers: [...headers, 'Content-Encoding', 'gzip'], body: gzipped };
  };
}

/** Whether a header lists a value. A value with the weight 0 is not acceptable (RFC 9110, 12.4.2). */
const isListed = (list: string | undefined, value: string): boolean =>
  (list ?? '').split(',').some((item) => {
    const [name = '', weight = ''] = item.split(';');
    return name.trim() === value && !/^\s*q=0(\.0*)?\s*$/i.test(weight);
  });
