import { createHash } from 'node:crypto';
import { extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { listBundledFiles, readBundledText } from '../system/bundled-files.ts';
import { notFound } from './errors.ts';
import { pathOf } from './request/input.ts';
import type { Handler, HeaderLines } from './response.ts';

/** The directory of the build. The path is the same from src/server/ and, in the bundle, from dist/chunks/. */
const DIST = join(import.meta.dirname, '..', '..', 'dist');
const FOLDER = 'page';

/** The only file whose name does not contain a hash. */
const INDEX = 'index.html';

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

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
  // The files are read when the page is opened first, so that a server starts fast.
  let files: ReadonlyMap<string, PageFile> | undefined;

  return ({ url = '', headers: requested }) => {
    files ??= readPageFiles();
    const file = files.get(pathOf(url));
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

/** A file of the page. Each character of `body` and `gzipped` is one byte. */
type PageFile = {
  contentType: string;
  cacheControl: string;
  etag: string;
  body: string;
  gzipped: string;
};

/** Reads the files of the page, by the paths at which they are served. */
function readPageFiles(): ReadonlyMap<string, PageFile> {
  return new Map(
    listBundledFiles(DIST, FOLDER).map((name): [string, PageFile] => {
      const content = Buffer.from(readBundledText(DIST, `${FOLDER}/${name}`));
      const isIndex = name === INDEX;
      return [
        isIndex ? '/' : `/page/${name}`,
        {
          contentType: CONTENT_TYPES[extname(name)] ?? 'application/octet-stream',
          // The names of the other files contain a hash of their content.
          cacheControl: isIndex ? 'no-cache' : 'public, max-age=31536000, immutable',
          etag: `W/"${createHash('sha256').update(content).digest('hex').slice(0, 16)}"`,
          body: content.toString('latin1'),
          gzipped: gzipSync(content, { level: 9 }).toString('latin1'),
        },
      ];
    }),
  );
}
