import { App, type HttpResponse, us_socket_local_port } from 'uWebSockets.js';

/**
 * The least that can be done on this server: gather the body, parse it as JSON, answer a constant. It takes
 * no care of anything. argv[2] is the answer, argv[3] the request id, both of the same length as ours.
 */
const [answer = '{}', requestId = ''] = process.argv.slice(2);

function receive(res: HttpResponse): void {
  res.onAborted(() => undefined);
  let first: Buffer | null = null;
  res.onData((piece, isLast) => {
    const body: Buffer = first === null ? Buffer.from(piece) : Buffer.concat([first, Buffer.from(piece)]);
    if (!isLast) {
      first = Buffer.from(body);
      return;
    }
    const { passport } = JSON.parse(body.toString('utf8')) as { passport: string };
    res.writeStatus(passport.length > 0 ? '200 OK' : '400 Bad Request');
    res.writeHeader('content-type', 'application/json; charset=utf-8');
    res.writeHeader('x-request-id', requestId);
    res.end(answer);
  });
}

App()
  .post('/*', receive)
  .listen('127.0.0.1', 0, (socket) => {
    if (!socket) throw new Error('bare-uws cannot listen');
    console.log(`port ${us_socket_local_port(socket)}`);
  });
