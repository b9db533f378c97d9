import { extname, join } from 'node:path';
import { listBundledFiles, readBundledText } from '../system/bundled-files.ts';
import { notFound } from './errors.ts';
import { pathOf } from './request/input.ts';
import type { Handler, RawHeaders, ServiceResponse } from './response.ts';

/** The directory of the build. The package root is two levels up from src/server/ and, if bundled, dist/chunks/. */
const DIST = join(import.meta.dirname, '..', '..', 'dist');
const FOLDER = 'page';

const INDEX = 'index.html';

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const SECURITY_HEADERS: RawHeaders = [
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
];

/** Returns a handler for the files of the developer page. They are public: they contain no data of the service. */
export function createPageHandler(): Handler {
  // The files are read when the page is opened for the first time, so that a server starts fast.
  let files: ReadonlyMap<string, ServiceResponse> | undefined;
  return ({ url = '' }) => {
    files ??= readPageFiles();
    const file = files.get(pathOf(url));
    if (file === undefined) throw notFound();
    return file;
  };
}

/** Reads the files of the page, by the paths at which they are served. */
const readPageFiles = (): ReadonlyMap<string, ServiceResponse> =>
  new Map(
    listBundledFiles(DIST, FOLDER).map((name) => {
      // The names of the other files contain a hash of their content, so a file with the same name never changes.
      const cacheControl = name === INDEX ? 'no-cache' : 'public, max-age=31536000, immutable';
      const file = {
        status: 200,
        headers: [...SECURITY_HEADERS, 'Cache-Control', cacheControl],
        contentType: CONTENT_TYPES[extname(name)] ?? 'application/octet-stream',
        body: readBundledText(DIST, `${FOLDER}/${name}`),
      };
      return [name === INDEX ? '/' : `/page/${name}`, file];
    }),
  );
