// Browsers start no worker for a page that was opened as a file. There the search runs in a hidden frame of the page instead.
"use strict";

if (location.protocol === "file:") {
  window.Worker = class {
    onmessage = null;
    onerror = null;
    onmessageerror = null;

    constructor(url) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.frame.addEventListener("load", () => this.start(String(url)), { once: true });
      document.body.append(this.frame);
    }

    start(url) {
      const inside = this.frame.contentWindow;
      // Copies, as between a page and a worker: both sides change what they get.
      inside.postMessage = (data) => this.onmessage?.({ data: structuredClone(data) });
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("error", () => this.onerror?.(new ErrorEvent("error")));
      script.addEventListener("load", () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
      inside.document.head.append(script);
    }

    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data);
      } else {
        const copy = structuredClone(data);
        // As with a worker, the answer comes after the caller has gone on.
        setTimeout(() => this.frame.contentWindow?.onmessage({ data: copy }));
      }
    }

    terminate() {
      this.frame.remove();
    }
  };
}
