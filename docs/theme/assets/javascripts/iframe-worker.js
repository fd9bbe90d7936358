/* Search in pages that are opened from the file system, where browsers refuse to start workers: the worker's script
   runs in a hidden frame of the page instead. Material's own remedy is loaded from another host. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      // The script calls postMessage() to answer, so the frame's own function is kept before it is replaced.
      this.send = inside.postMessage.bind(inside)
      this.loaded = new Promise(resolve => frame.addEventListener("load", resolve, { once: true }))
      inside.document.open()
      inside.document.write(
        "<script>postMessage = data => parent.postMessage(data, '*')</script>" +
        `<script src="${encodeURI(url)}"></script>`
      )
      inside.document.close()
      window.addEventListener("message", event => {
        if (event.source === inside)
          this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
    }

    postMessage(data) {
      this.loaded.then(() => this.send(data, "*"))
    }
  }
  window.Worker = window.IFrameWorker
}
