import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import { readSections, renderFound, searchCharsMax, searchGuide } from './search-guide.ts';
import { type ConsoleFiles, safeHeaders, sendFile } from './served-file.ts';

/** Text, its style and a search: no script, no image but the icon. */
const policy = [
  "default-src 'none'",
  "style-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * `GET /docs/guide` and below, public: the pages of the repository's documentation. Reads from memory only
 * what the build has made, so that a name of a caller reaches no file.
 */
export function guideRoutes(files: ConsoleFiles): FastifyPluginAsync {
  const send = (request: FastifyRequest, reply: FastifyReply, name: string): FastifyReply => {
    const file = files.get(`guide/${fileOf(name)}`);
    if (file === undefined) {
      throw new ApiError('route_not_found', {
        message: files.size === 0 ? 'The guide is not built here: run "npm run build".' : 'No such page.',
      });
    }
    // A page changes with the version of the service; the tag makes asking again cheap.
    reply.headers({ ...safeHeaders, 'content-security-policy': policy, 'cache-control': 'no-cache' });
    return sendFile(request, reply, file);
  };
  const options = { config: { scope: null }, schema: { hide: true } } as const;
  // Read with the first search: most replicas are never asked.
  let sections: ReturnType<typeof readSections> | null = null;
  return async (app) => {
    app.get<{ Querystring: { q?: unknown } }>('/docs/guide/search', options, (request, reply) => {
      const page = files.get('guide/search-page.txt');
      if (page === undefined) return send(request, reply, 'search');
      const { q } = request.query;
      const query = typeof q === 'string' ? q.slice(0, searchCharsMax).toWellFormed() : '';
      sections ??= readSections(files);
      const results = renderFound(query, searchGuide(sections, query));
      reply.headers({ ...safeHeaders, 'content-security-policy': policy, 'cache-control': 'no-store' });
      const html = page.bytes.toString('utf8').replace('<!-- results -->', () => results);
      return reply.type('text/html; charset=utf-8').send(html);
    });
    app.get('/docs/guide', options, (request, reply) => send(request, reply, ''));
    app.get<{ Params: { '*': string } }>('/docs/guide/*', options, (request, reply) =>
      send(request, reply, request.params['*']),
    );
  };
}

/** Pages have addresses without an ending; files that pages link to keep theirs, and are shown as text. */
function fileOf(name: string): string {
  if (name === '') return 'index.html';
  if (name === 'guide.css') return name;
  return name.startsWith('files/') ? `${name}.txt` : `${name.replace(/\/$/, '')}.html`;
}
