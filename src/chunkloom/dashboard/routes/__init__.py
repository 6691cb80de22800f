"""The dashboard's REST API, one module an area. Bodies are read here; services do the work."""

from chunkloom.dashboard.routes import blockwise, boxes, data, export, jobs, logs, models, pages, viewer

ROUTERS = (
    blockwise.router,
    pages.router,
    data.router,
    models.router,
    viewer.router,
    boxes.router,
    export.router,
    jobs.router,
    logs.router,
)
