// An MCP server on standard input and output, with SDK 1.x. It writes what it does to the file FILE.
import { spawn } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';

const note = (word) => appendFileSync(process.env.FILE, `${word}\n`);
const names = Object.keys(process.env).filter((name) => /AGENT_TRUST|ADMIN_API_KEY/.test(name));
note(`started ${process.pid} ${names.length}`);
console.error('a line for people');

const server = new McpServer({ name: 'shop', version: '1' });
for (const name of ['pay', 'read']) {
  server.registerTool(name, {}, () => {
    note(name);
    return { content: [{ type: 'text', text: name }] };
  });
}
server.registerTool('die', {}, () => process.exit(3));
server.registerTool('count', {}, async ({ _meta, sendNotification }) => {
  for (const progress of [1, 2]) {
    const params = { progressToken: _meta?.progressToken, progress };
    await sendNotification({ method: 'notifications/progress', params });
  }
  return { content: [{ type: 'text', text: 'count' }] };
});
if (process.env.STUBBORN === '1') {
  // It outlives the end of its input and SIGTERM, and so does its child.
  setInterval(() => undefined, 60_000);
  process.on('SIGTERM', () => note('SIGTERM'));
  const child = spawn(
    process.execPath,
    ['-e', 'process.on("SIGTERM", () => 0); setInterval(() => 0, 60_000)'],
    {
      stdio: 'ignore',
    },
  );
  note(`child ${child.pid}`);
}
await server.connect(new StdioServerTransport());
note('ready');
